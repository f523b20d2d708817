package main

import (
	"github.com/spf13/cobra"
)

// backendNames are the agents of this build, in the order in which a default
// is looked for; simulate is only taken by name.
var backendNames = []string{"claude-code", "codex", "copilot", "simulate"}

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the agents of this sandbox on :18100",
		Long: `Serve the agents of this sandbox. Every flag is also a variable, INNERD_ and the
flag in capitals; a flag wins over its variable, that over the variables of the
field, those over the default.

SIGTERM and SIGINT stop it: no new runs, the running ones are ended with their
events, agents are closed. A second signal ends it at once.`,
		Example: `  innerd serve
  innerd serve --listen 127.0.0.1:0 --auth required --log-format json
  INNERD_API_KEYS=ci:s3cret innerd serve --backend claude-code --workspace /workspace`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd) },
	}
	addSettings(cmd, serveSettings())
	return cmd
}
