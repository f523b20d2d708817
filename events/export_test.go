package events

// ParseWhole is ParseLine without the short way for deltas.
var ParseWhole = parseLine
