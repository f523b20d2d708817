//go:build linux || darwin

package main

import (
	"maps"
	"testing"
)

// What is told late stands before the environment, field by field; what it does
// not say stays the environment's, and so does what it says of another agent.
func TestLateGetenv(t *testing.T) {
	const late = "late-"
	fields := map[string]func(*lateCredential){
		"API_KEY":  func(c *lateCredential) { c.APIKey = late + "API_KEY" },
		"BASE_URL": func(c *lateCredential) { c.BaseURL = late + "BASE_URL" },
		"MODEL":    func(c *lateCredential) { c.Model = late + "MODEL" },
		"PROVIDER": func(c *lateCredential) { c.Provider = late + "PROVIDER" },
	}
	prefixes := map[string]string{"claude-code": "INNERD_CLAUDE_CODE_", "codex": "INNERD_CODEX_", "copilot": "INNERD_COPILOT_"}
	set := map[string]string{"ANTHROPIC_API_KEY": "vendor", "OPENAI_API_KEY": "vendor", "PATH": "/bin"}
	for _, prefix := range prefixes {
		for field := range fields {
			set[prefix+field] = "environment-" + prefix + field
		}
	}
	for name, environment := range map[string]map[string]string{"set": set, "empty": {}} {
		for agent, prefix := range prefixes {
			for field, fill := range fields {
				t.Run(name+"/"+agent+"/"+field, func(t *testing.T) {
					var cr lateCredential
					fill(&cr)
					c := &lateConfig{Credentials: map[string]lateCredential{agent: cr}}
					get := c.getenv(func(name string) string { return environment[name] })
					want := maps.Clone(environment)
					want[prefix+field] = late + field
					for name := range set {
						if got := get(name); got != want[name] {
							t.Errorf("%s is %q, want %q", name, got, want[name])
						}
					}
				})
			}
		}
	}
}
