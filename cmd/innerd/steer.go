package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"innerd/adapter/api"
)

func (a *app) steerCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "steer TASK TEXT",
		Short: "Tell a running turn more",
		Long: `Give more input to a turn that runs, and wait until its agent has taken it. A run
that has ended, waits for its turn or for an answer of its host takes none, and
neither does an agent that cannot.`,
		Example: `  innerd steer run-ABC "leave the tests alone"`,
		Args:    cobra.ExactArgs(2),

		ValidArgsFunction: a.completeTask(api.StateWorking),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := a.connect(ctx, cmd)
			if err != nil {
				return err
			}
			defer c.CloseIdleConnections()
			if err := c.Steer(ctx, args[0], args[1]); err != nil {
				return refused(err)
			}
			_, err = fmt.Fprintln(a.out, args[0]+" has taken it")
			return err
		},
	}
	addSettings(cmd, clientSettings())
	return cmd
}

func (a *app) compactCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact CONVERSATION",
		Short: "Have the agent of a conversation shorten its memory",
		Long: `Have the agent of a conversation shorten its memory, and wait until it has. The
conversation is named as in innerd run -C, or by its id. Turns that come
meanwhile wait.`,
		Example: "  innerd compact review",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := a.connect(ctx, cmd)
			if err != nil {
				return err
			}
			defer c.CloseIdleConnections()
			list, err := c.Conversations(ctx)
			if err != nil {
				return err
			}
			id, err := pick(list, args[0])
			if err != nil {
				return err
			}
			if _, err := c.CompactConversation(ctx, id); err != nil {
				return refused(err)
			}
			_, err = fmt.Fprintln(a.out, args[0]+" is shortened")
			return err
		},
	}
	addSettings(cmd, clientSettings())
	return cmd
}

// pick finds a conversation by its id, or by a name that only one has.
func pick(list []api.Conversation, name string) (string, error) {
	var found []string
	for _, c := range list {
		if c.ID == name {
			return c.ID, nil
		}
		if c.ContextID == name {
			found = append(found, c.ID+" ("+c.Backend+")")
		}
	}
	switch len(found) {
	case 0:
		return "", exitError{exitUsage, fmt.Errorf("there is no conversation %s", name)}
	case 1:
		id, _, _ := strings.Cut(found[0], " ")
		return id, nil
	}
	return "", exitError{exitUsage, fmt.Errorf("several conversations are called %s; name one by its id: %s", name, strings.Join(found, ", "))}
}

// refused is exit code 1 for what cannot be done now, or by this agent.
func refused(err error) error {
	if isStatus(err, http.StatusConflict) || isStatus(err, http.StatusNotImplemented) {
		return exitError{exitFailed, err}
	}
	return err
}
