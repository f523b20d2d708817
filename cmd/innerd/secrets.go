package main

import (
	"os"
	"slices"
	"strings"
)

// secretNames are variables that must not stay in the environment, where every
// process of the same user can read them as long as this one lives.
var secretNames = []string{
	"INNERD_API_KEY", "INNERD_API_KEYS", "II_AGENT_A2A_API_KEYS",
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
	"OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN",
}

// isSecret reports whether a variable is one of those, or INNERD_*_API_KEY.
func isSecret(name string) bool {
	return slices.Contains(secretNames, name) ||
		(strings.HasPrefix(name, "INNERD_") && strings.HasSuffix(name, "_API_KEY"))
}

// secrets are the variables that were taken out of the environment.
type secrets map[string]string

// getenv looks a variable up, whether it was taken out or not.
func (s secrets) getenv(name string) string {
	if v, ok := s[name]; ok {
		return v
	}
	return os.Getenv(name)
}

// takesKeys reports whether a command line is of a command that lives long and
// runs agents: only for those a second exec is worth its milliseconds.
func takesKeys(args []string) bool {
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			return a == "serve" || a == "run"
		}
	}
	return false
}
