// Package shield keeps keys out of the environment. What a process was started
// with stays readable in /proc/PID/environ as long as it lives, to every
// process of its user, agents too. So innerd starts itself a second time, in
// place, without them, and hands them over in a pipe.
//
// It does so while the program is initialised, and imports nothing but what
// the runtime needs anyway: packages are initialised in the order of their
// paths as soon as their imports are, so that this one comes before the ones
// that cost milliseconds, and a second start costs little more than an exec.
package shield

import (
	"os"
	"strings"
)

// names are the variables that are taken out.
var names = [...]string{
	"INNERD_API_KEY", "INNERD_API_KEYS", "II_AGENT_A2A_API_KEYS", "INNERD_INIT_KEY",
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
	"OPENAI_API_KEY", "CODEX_API_KEY", "AZURE_OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "COPILOT_GITHUB_TOKEN",
	"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
}

// Secret reports whether a variable is one that is taken out: a key of ours,
// one of a vendor's that agents use, or INNERD_*_API_KEY.
func Secret(name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return strings.HasPrefix(name, "INNERD_") && strings.HasSuffix(name, "_API_KEY")
}

// Names lists the variables that Secret knows by name.
func Names() []string { return append([]string(nil), names[:]...) }

// What init found.
var (
	taken   map[string]string
	failure error
)

// Getenv looks a variable up, whether it was taken out or not.
func Getenv(name string) string {
	if v, ok := taken[name]; ok {
		return v
	}
	return os.Getenv(name)
}

// Err says why keys could not be taken out; a server must not start then.
func Err() error { return failure }

// wanted reports whether a command line is of a command that runs agents.
func wanted(args []string) bool {
	name := command(args)
	return name == "serve" || name == "run"
}

// closed reports whether it is one that keeps its keys, for the server that it
// starts, or that works among agents: nobody else may look into it.
func closed(args []string) bool {
	name := command(args)
	return name == "init" || name == "sweep-agents"
}

func command(args []string) string {
	for _, a := range args[min(1, len(args)):] {
		if !strings.HasPrefix(a, "-") {
			return a
		}
	}
	return ""
}
