// Package ledger compares what the readers of a run were given with the log
// of the run on disk, content by id: a count cannot see an id that was given
// to two events. It keeps a checksum of each event, so that a long run costs
// eight bytes an event and reader.
package ledger
