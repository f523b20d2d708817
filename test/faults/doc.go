// Package faults is tests of what goes wrong, seen from outside: the server,
// the disk, the network, the agents, the models and the hosts are ended, cut,
// filled and slowed, with the simulated agent and with real ones, and after
// each fault what every reader was given is compared with the log on disk,
// content by id. It has nothing but tests. INNERD_LONG has them take their
// time; INNERD_REPORT names a folder that the table goes to.
package faults
