package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"innerd/adapter/api"
	"innerd/host"
)

func (a *app) tailCmd() *cobra.Command {
	var after int64
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "tail TASK",
		Short: "Show the events of a run, from its start to its end",
		Long: `Show the events of a run, from its start or after an id, and follow it to its
end. It answers nothing and cancels nothing.

` + exitHelp,
		Example: `  innerd tail run-ABC
  innerd tail --after 120 --json run-ABC`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTask(""),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := a.connect(ctx, cmd)
			if err != nil {
				return err
			}
			defer c.CloseIdleConnections()
			p := newPrinter(a, asJSON, quiet)
			return a.follow(ctx, c, p, nil, c.Follow(ctx, args[0], after), args[0])
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only events after this id")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each event as a line of JSON")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the agent's finished messages")
	addSettings(cmd, clientSettings())
	return cmd
}

// completeTask offers the newest runs in a state, "" for any, to the shell.
func (a *app) completeTask(state string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
		defer stop()
		c, err := a.connect(ctx, cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.CloseIdleConnections()
		page, err := c.Tasks(ctx, host.TaskQuery{State: state, PageSize: 50})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []cobra.Completion
		for _, t := range page.Tasks {
			ids = append(ids, cobra.CompletionWithDesc(t.ID, clean(stateOf(t)+" "+oneLine(lastPrompt(t), 40))))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func (a *app) psCmd() *cobra.Command {
	var q host.TaskQuery
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ps",
		Short:   "List runs, newest first",
		Example: "  innerd ps --state working\n  innerd ps -C review",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := a.connect(ctx, cmd)
			if err != nil {
				return err
			}
			defer c.CloseIdleConnections()
			page, err := c.Tasks(ctx, q)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, page.Tasks)
			}
			return a.printTasks(page)
		},
	}
	cmd.Flags().StringVarP(&q.ContextID, "conversation", "C", "", "only of this conversation")
	cmd.Flags().IntVarP(&q.PageSize, "lines", "n", 20, "at most as many")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	states := []string{api.StateSubmitted, api.StateWorking, api.StateInputRequired, api.StateCompleted, api.StateFailed, api.StateCanceled}
	cmd.Flags().StringVar(&q.State, "state", "", "only in this state: "+strings.Join(states, ", "))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	addSettings(cmd, clientSettings())
	return cmd
}

func (a *app) printTasks(page api.Tasks) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tSTATE\tAGENT\tSINCE\tCONVERSATION\tPROMPT")
	for _, t := range page.Tasks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, stateOf(t), t.Backend, since(t.Status.Timestamp, time.Now()),
			clean(oneLine(dash(t.ContextID), 24)), clean(oneLine(lastPrompt(t), 48)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if page.NextPageToken != "" {
		fmt.Fprintln(a.err, "(there are more; see -n)")
	}
	return nil
}

func stateOf(t api.Task) string {
	if t.Canceling {
		return "canceling"
	}
	return t.Status.State
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func lastPrompt(t api.Task) string {
	for i := len(t.History) - 1; i >= 0; i-- {
		if t.History[i].Role == api.RoleUser {
			return t.History[i].Content
		}
	}
	return ""
}

// since is how long ago a time was, in one unit.
func since(stamp string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return "?"
	}
	d := now.Sub(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func (a *app) cancelCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "cancel TASK",
		Short:   "Cancel a run and wait until it has ended",
		Example: "  innerd cancel run-ABC",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: a.completeTask(api.StateWorking),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := a.connect(ctx, cmd)
			if err != nil {
				return err
			}
			defer c.CloseIdleConnections()
			t, err := c.Cancel(ctx, args[0], reason)
			if isStatus(err, http.StatusConflict) {
				return exitError{exitFailed, fmt.Errorf("%s has ended already", args[0])}
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, strings.TrimSpace(t.ID+" "+stateOf(t)))
			return err
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "by the user", "why, for the log")
	addSettings(cmd, clientSettings())
	return cmd
}
