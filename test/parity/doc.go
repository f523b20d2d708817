// Package parity tries, with the innerd binary, HTTP and the real agents, the
// rows of the table of agents that can only be seen there. What it finds is
// testdata/table-AGENT.json, one part of what docs/agents.md is made of.
package parity
