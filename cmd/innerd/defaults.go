package main

import (
	"os"
	"path/filepath"
	"strings"
)

// setting is one thing that can be told to the server: by its flag, by
// INNERD_<FLAG>, by the variables of the field, else its default. The tables
// below are the one place where defaults stand; docs/operations.md is made
// from them.
type setting struct {
	flag  string
	field []string // variables of the field, in order; a bad value is the default with a warning
	def   string
	note  string // how the default is found, where it is not fixed
	kind  kind
	help  string
	group string
}

// env is the setting's own variable.
func (s setting) env() string {
	return "INNERD_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}

// Groups, in the order of the docs.
const (
	groupNet    = "Network and access"
	groupAgents = "Agents"
	groupTimes  = "Times"
	groupLimits = "Limits"
	groupLog    = "Event log"
	groupOwn    = "The server's own log"
)

// serveSettings are the settings of `innerd serve`.
func serveSettings() []setting {
	return []setting{
		{flag: "listen", def: ":18100", kind: kindString, group: groupNet, help: "address to listen on"},
		{flag: "host", kind: kindString, group: groupNet, help: "host part of --listen"},
		{flag: "port", field: []string{"SANDBOX_ADAPTER_PORT"}, kind: kindPort, group: groupNet, help: "port part of --listen; 0 takes a free one"},
		{flag: "auth", def: "auto", kind: kindAuth, group: groupNet, help: "auto, required or off"},
		{flag: "api-key-file", kind: kindString, group: groupNet, help: "file of keys, one a line: secret or name:secret"},
		{flag: "await-init", def: "false", kind: kindBool, group: groupNet, help: "wait for POST /init before anything else; also with an init key"},
		{flag: "init-key-file", kind: kindString, group: groupNet, help: "file of the key that POST /init asks for; or INNERD_INIT_KEY"},
		{flag: "allowed-host", kind: kindList, group: groupNet, help: "names, beside localhost, that requests over loopback may be addressed to; * is any"},
		{flag: "fetch-allow", kind: kindList, group: groupNet, help: "hosts with private addresses that attachments may be fetched from"},
		{flag: "a2a-url", note: "where a request reached it", kind: kindString, group: groupNet, help: "URL of this server for the outside, in A2A cards"},
		{flag: "a2a-root-card", def: "1.0", kind: kindString, group: groupNet, help: "A2A card at the root: 1.0, or both for clients of 0.3 that look nowhere else"},
		{flag: "a2a-card-key", kind: kindString, group: groupNet, help: "file of a private key in PEM that signs A2A cards"},
		{flag: "grpc-listen", kind: kindString, group: groupNet, help: "address to listen on for A2A over gRPC; empty is off"},
		{flag: "grpc-url", note: "the host of the request and the port of --grpc-listen", kind: kindString, group: groupNet, help: "host:port of gRPC for the outside, in A2A cards"},
		{flag: "push-allow", kind: kindList, group: groupNet, help: "hosts with private addresses that A2A push notifications may be sent to"},
		{flag: "open-metrics", def: "false", kind: kindBool, group: groupNet, help: "GET /metrics needs no key"},
		{flag: "open-debug", def: "false", kind: kindBool, group: groupNet, help: "GET /debug/... needs no key"},
		{flag: "pprof", def: "false", kind: kindBool, group: groupNet, help: "serve /debug/pprof: profiles show what the server works on"},
		{flag: "discover-allow", kind: kindList, group: groupNet, help: "hosts with private addresses that agents may be discovered at"},

		{flag: "backend", field: []string{"SANDBOX_ADAPTER_BACKEND"}, note: "the first usable of claude-code, codex, copilot", kind: kindBackend, group: groupAgents, help: "agent of runs that name none"},
		{flag: "workspace", field: []string{"WORKSPACE_DIR"}, note: "`/workspace` if there, else the server's directory", kind: kindString, group: groupAgents, help: "directory of runs that name none"},
		{flag: "agent-home", note: "`/var/lib/innerd-agents` for root, else `$XDG_STATE_HOME/innerd-agents`", kind: kindString, group: groupAgents, help: "where agents keep their own files; never below --state-dir"},
		{flag: "agent-env", kind: kindList, group: groupAgents, help: "more variables that agents inherit"},
		{flag: "claude-code-path", note: "the pinned one of `make agents` if there, else `claude` on PATH", kind: kindString, group: groupAgents, help: "the claude binary"},
		{flag: "codex-path", note: "the pinned one of `make agents` if there, else `codex` on PATH", kind: kindString, group: groupAgents, help: "the codex binary"},
		{flag: "copilot-path", note: "the pinned one of `make agents` if there, else `copilot` on PATH", kind: kindString, group: groupAgents, help: "the copilot binary"},
		{flag: "simulate-script", kind: kindString, group: groupAgents, help: "file with the script of simulated runs that bring none"},
		{flag: "max-warm", def: "0", note: "memory limit / 400 MB, at least 2", kind: kindInt, group: groupAgents, help: "conversations whose agent is kept running"},
		{flag: "max-spawns", def: "0", note: "CPUs", kind: kindInt, group: groupAgents, help: "agents that start at the same time"},

		{flag: "turn-timeout", def: "15m", kind: kindDuration, group: groupTimes, help: "of a turn"},
		{flag: "claude-code-timeout", field: []string{"A2A_CLAUDE_CODE_TIMEOUT"}, note: "--turn-timeout", kind: kindDuration, group: groupTimes, help: "of a turn of claude-code"},
		{flag: "codex-timeout", field: []string{"A2A_CODEX_TIMEOUT"}, note: "--turn-timeout", kind: kindDuration, group: groupTimes, help: "of a turn of codex"},
		{flag: "copilot-timeout", field: []string{"A2A_COPILOT_TIMEOUT"}, def: "30m", kind: kindDuration, group: groupTimes, help: "of a turn of copilot"},
		{flag: "stall-timeout", def: "10m", kind: kindDuration, group: groupTimes, help: "silence of an agent while nothing is open"},
		{flag: "claude-code-stall-timeout", field: []string{"A2A_CLAUDE_CODE_ACTIVITY_TIMEOUT"}, note: "--stall-timeout", kind: kindDuration, group: groupTimes, help: "the same for claude-code"},
		{flag: "codex-stall-timeout", field: []string{"A2A_CODEX_ACTIVITY_TIMEOUT"}, note: "--stall-timeout", kind: kindDuration, group: groupTimes, help: "the same for codex"},
		{flag: "copilot-stall-timeout", field: []string{"A2A_COPILOT_ACTIVITY_TIMEOUT"}, note: "--stall-timeout", kind: kindDuration, group: groupTimes, help: "the same for copilot"},
		{flag: "permission-timeout", def: "10m", kind: kindDuration, group: groupTimes, help: "a permission without an answer is denied"},
		{flag: "question-timeout", def: "5m", kind: kindDuration, group: groupTimes, help: "a question without an answer ends the run"},
		{flag: "open-timeout", def: "30s", kind: kindDuration, group: groupTimes, help: "for an agent to start, as long as it has its turn among the starts; Claude Code has 60s, whatever this says"},
		{flag: "grace", def: "3s", kind: kindDuration, group: groupTimes, help: "between asking an agent to stop and ending it"},
		{flag: "idle-timeout", def: "15m", kind: kindDuration, group: groupTimes, help: "a conversation's agent without a run is ended"},
		{flag: "detach-grace", def: "10s", kind: kindDuration, group: groupTimes, help: "a run whose last reader has gone is canceled"},
		{flag: "write-timeout", def: "60s", kind: kindDuration, group: groupTimes, help: "a reader that takes nothing is cut"},
		{flag: "stop-timeout", def: "15s", kind: kindDuration, group: groupTimes, help: "for a graceful stop; then the end is hard"},

		{flag: "max-body", def: "64MiB", kind: kindBytes, group: groupLimits, help: "of a request or a tool result"},
		{flag: "max-connections", def: "0", note: "3/8 of the descriptors that the server may open", kind: kindInt, group: groupLimits, help: "streams, and calls that wait for the end of a run, at once; the next ones wait until one ends, other calls do not"},
		{flag: "rate-limit", def: "0", kind: kindInt, group: groupLimits, help: "calls a second of each key, but for those that runs are made of; 0 is any number"},
		{flag: "max-queue", def: "16", kind: kindInt, group: groupLimits, help: "runs that wait in one conversation"},

		{flag: "redact", def: "off", kind: kindRedact, group: groupLog, help: "secrets taken out of events before they are stored: off, keys that the server knows, or common, these and the tokens of usual vendors"},
		{flag: "redact-file", kind: kindString, group: groupLog, help: "file of more of them, one a line: a text, or the beginning of tokens and *; with it --redact is at least keys"},
		{flag: "state-dir", note: "`/var/lib/innerd` for root, else `$XDG_STATE_HOME/innerd`", kind: kindString, group: groupLog, help: "the log of events, and everything else that is kept"},
		{flag: "fsync", def: "1s", kind: kindFsync, group: groupLog, help: "none, end, 1s or always"},
		{flag: "retention", def: "24h", kind: kindDuration, group: groupLog, help: "ended runs are kept as long"},
		{flag: "max-runs", def: "10000", kind: kindInt, group: groupLog, help: "and as many"},
		{flag: "max-log", def: "2GiB", kind: kindBytes, group: groupLog, help: "and as much"},
		{flag: "max-event", def: "1MiB", kind: kindBytes, group: groupLog, help: "a longer value of an event is kept beside the log"},
		{flag: "log-memory", def: "64MiB", kind: kindBytes, group: groupLog, help: "events kept in memory for readers"},

		{flag: "log-format", def: "text", kind: kindLogFormat, group: groupOwn, help: "text or json, on stderr"},
		{flag: "log-level", def: "info", kind: kindLogLevel, group: groupOwn, help: "debug, info, warn or error"},
	}
}

// clientSettings are the settings of the commands that talk to a server.
func clientSettings() []setting {
	return []setting{
		{flag: "server", note: "`http://127.0.0.1:18100` if innerd answers there", kind: kindString, help: "URL of the server"},
		{flag: "api-key-file", note: "the `token` of the state directory, if it can be read", kind: kindString, help: "file whose first line is the key"},
		{flag: "state-dir", note: "as `serve`", kind: kindString, help: "state directory of the local server"},
	}
}

// defaultStateDir and defaultAgentHome are where files are kept when nobody
// says. They are never one below the other.
func defaultStateDir(getenv func(string) string) string { return stateHome(getenv, "innerd") }

func defaultAgentHome(getenv func(string) string) string { return stateHome(getenv, "innerd-agents") }

func defaultPrivateDir(getenv func(string) string) string { return userState(getenv, "innerd-private") }

func stateHome(getenv func(string) string, name string) string {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", name)
	}
	return userState(getenv, name)
}

func userState(getenv func(string) string, name string) string {
	if d := getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, name)
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", name)
	}
	return filepath.Join(os.TempDir(), name)
}
