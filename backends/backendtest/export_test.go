package backendtest

// NativesOf is the case that Run makes of a rig's own tools.
func NativesOf(r Rig) []Case { return r.natives() }

// CheckCapabilities is what Run does before it plays.
var CheckCapabilities = checkCapabilities
