package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// main runs one command line and gives its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	return exitOf(a.err, cmd.CommandPath(), err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "innerd",
		Short: "Lend the inner loop of an agent to a coding agent in this sandbox",
		Long: `innerd runs inside a sandbox and lets a host agent loop hand its inner loop to
a coding agent there: Claude Code, Codex, Copilot, or a simulated one. The host
posts a turn, reads one stream of events whatever the agent, and lends the
agent its own tools over the same wire.`,
		Example: `  innerd serve                                # the server, on :18100
  innerd run "what does this repository do?"  # one turn, in this terminal
  innerd run -b simulate --script docs/demo.json --tool 'machine=uname -a' "Where do you run?"
  innerd doctor                               # what works here, and what to do`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("innerd {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(a.serveCmd(), a.runCmd(), a.tailCmd(), a.psCmd(), a.steerCmd(), a.cancelCmd(), a.compactCmd(), a.loginCmd(), a.doctorCmd(), a.healthCmd(), a.versionCmd(), a.docsCmd())
	root.AddCommand(imageCommands(a)...)
	root.AddCommand(hiddenCommands(a)...)
	for _, c := range root.Commands() {
		c.Args = usageArgs(c.Args)
	}
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError{errors.New("unknown command " + strings.TrimSpace(args[0]))}
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// usageArgs makes a wrong count of arguments a usage error, which says what
// there should be.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		check = cobra.NoArgs
	}
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case len(args) == 0:
			err = errors.New("an argument is missing: " + cmd.UseLine())
		case cmd.Name() == "run":
			err = fmt.Errorf("the prompt is one argument, not %d: quote it", len(args))
		default:
			err = errors.New("too many arguments: " + cmd.UseLine())
		}
		return usageError{err}
	}
}
