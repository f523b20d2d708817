// Package spec is A2A 1.0 (text of 1.0.1) as Go types: what clients send, what
// they get, and the errors, in ProtoJSON. It knows nothing of this server.
//
// The types are our own and not those of the official SDK, because clients send
// what those refuse or change: names in snake_case, numbers as strings, enums
// as numbers, and metadata whose bytes must come back as they were.
package spec
