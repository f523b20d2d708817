package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"innerd/backends"
	"innerd/image/entrypoint"
)

const sweepCommand = "sweep-agents"

// imageCommands are those of process 1 of a container.
func imageCommands(a *app) []*cobra.Command {
	return []*cobra.Command{a.initCmd(), {
		Use: sweepCommand, Hidden: true,
		RunE: func(*cobra.Command, []string) error { return backends.SweepMain(a.in, a.out) },
	}}
}

// initFlags are those of init alone; what stands after -- is serve's.
type initFlags struct {
	server, agent, services string
	grace                   time.Duration
}

// The users of an image that has no such names in its /etc/passwd.
var (
	serverUser = account{name: "innerd", id: backends.User{UID: 18100, GID: 18100}}
	agentUser  = account{name: "agent", id: backends.User{UID: 18101, GID: 18101}}
)

func (a *app) initCmd() *cobra.Command {
	f := &initFlags{}
	cmd := &cobra.Command{
		Use:   "init [flags] [-- flags of serve]",
		Short: "Be process 1 of a container: run the server as one user, its agents as another",
		Long: `Run "innerd serve" as the entrypoint of a container. As root it runs the server
as one user and agents as another, so that what an agent runs can read neither
the server's token, nor its log, nor its memory; it keeps no rights but those
to change users and to signal them. Started as another user it runs both as that
user. It reaps orphans, passes signals on, and starts a server that crashed
again. All settings of serve are taken from the environment, or from what
follows --.`,
		Example: `  innerd init
  innerd init --agent-user 1000:1000 -- --backend claude-code
  innerd init --services /etc/innerd/services.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.init(cmd.Context(), f, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.server, "server-user", a.getenv("INNERD_SERVER_USER"), "user of the server: a name, or uid[:gid] (default: innerd, else 18100) [$INNERD_SERVER_USER]")
	fl.StringVar(&f.agent, "agent-user", a.getenv("INNERD_AGENT_USER"), "user of agents, likewise (default: agent, else 18101) [$INNERD_AGENT_USER]")
	fl.StringVar(&f.services, "services", a.getenv("INNERD_SERVICES"), "file with programs to run beside the server [$INNERD_SERVICES]")
	fl.DurationVar(&f.grace, "kill-after", 12*time.Second, "a server that has not stopped by then is killed")
	return cmd
}

func (a *app) init(ctx context.Context, f *initFlags, args []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	survivePipes()
	o, err := untilSignal(ctx, signals, func(ctx context.Context) (entrypoint.Options, error) { return a.entrypointOptions(ctx, f, args) })
	if errors.Is(err, context.Canceled) {
		return nil // nothing has been started
	}
	if err != nil {
		return err
	}
	o.Started = trim
	code, err := entrypoint.Run(ctx, signals, o)
	if err != nil {
		return exitError{exitFailed, err}
	}
	if code != 0 {
		return exitError{code: code}
	}
	return nil
}

// entrypointOptions is what init does, from its flags and its environment.
func (a *app) entrypointOptions(ctx context.Context, f *initFlags, args []string) (entrypoint.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return entrypoint.Options{}, err
	}
	log := newLogger(a.err, orText(a.getenv("INNERD_LOG_FORMAT"), "text"), orText(a.getenv("INNERD_LOG_LEVEL"), "info"))
	env := newEnviron(os.Environ())
	env.orElse("INNERD_STOP_TIMEOUT", "8s") // an engine gives a container ten
	o := entrypoint.Options{
		Server:  entrypoint.Program{Path: self, Args: append([]string{"innerd", "serve"}, args...)},
		Sweeper: []string{self, sweepCommand}, Grace: f.grace, Logger: log,
	}
	var agent account
	if os.Getuid() == 0 {
		if agent, err = setUsers(f, &o); err != nil {
			return o, err
		}
		a.dirs(&o, env, agent)
	} else {
		log.Warn("not started as root: agents run as the same user as the server, which promises nothing against a hostile one",
			"uid", os.Getuid())
	}
	if o.Services, err = a.readServices(ctx, f.services, env.list()); err != nil {
		return o, err
	}
	o.Server.Env = env.list()
	return o, nil
}

// untilSignal makes something that may wait for a file, until a signal that ends
// process 1; others mean nothing before there is a server.
func untilSignal[T any](ctx context.Context, signals <-chan os.Signal, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type made struct {
		v   T
		err error
	}
	done := make(chan made, 1)
	go func() { // ends with f, which ends with ctx
		v, err := f(ctx)
		done <- made{v, err}
	}()
	for {
		select {
		case m := <-done:
			if m.err == nil && ctx.Err() != nil { // what was made just before the signal counts for nothing
				return m.v, context.Cause(ctx)
			}
			return m.v, m.err
		case sig := <-signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGQUIT {
				cancel()
			}
		}
	}
}

func setUsers(f *initFlags, o *entrypoint.Options) (account, error) {
	server, err := lookup(f.server, serverUser)
	if err != nil {
		return account{}, usageError{fmt.Errorf("--server-user: %w", err)}
	}
	agent, err := lookup(f.agent, agentUser)
	if err != nil {
		return account{}, usageError{fmt.Errorf("--agent-user: %w", err)}
	}
	if server.id.UID == 0 || agent.id.UID == 0 || server.id.UID == agent.id.UID {
		return account{}, usageError{errors.New("the users of server and agents must be two, and neither of them root")}
	}
	server.id.Groups = append(server.id.Groups, agent.id.GID) // for the files that pass between them
	o.Server.User, o.Agents = &server.id, &agent.id
	return agent, nil
}

// dirs makes the places that are written to: the server's, the agents', and
// their workspace. HOME is in the agents', which may be all that is writable.
func (a *app) dirs(o *entrypoint.Options, env *environ, agent account) {
	state := orText(a.getenv("INNERD_STATE_DIR"), "/var/lib/innerd")
	home := orText(a.getenv("INNERD_AGENT_HOME"), "/var/lib/innerd-agents")
	env.set("INNERD_STATE_DIR", state)
	env.set("INNERD_AGENT_HOME", home)
	env.set("HOME", filepath.Join(home, "home"))
	env.set("USER", agent.name)
	o.Dirs = []entrypoint.Dir{
		{Path: state, Owner: o.Server.User, Mode: 0o700},
		{Path: home, Owner: o.Agents, Mode: 0o770 | fs.ModeSetgid},
		{Path: filepath.Join(home, "home"), Owner: o.Agents, Mode: 0o750},
	}
	workspace := orText(a.getenv("INNERD_WORKSPACE"), orText(a.getenv("WORKSPACE_DIR"), "/workspace"))
	if real, err := filepath.EvalSymlinks(workspace); err == nil {
		workspace = real
	}
	info, err := os.Stat(workspace)
	if err != nil {
		o.Dirs = append(o.Dirs, entrypoint.Dir{Path: workspace, Owner: o.Agents, Mode: 0o755})
	} else if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && info.Mode().Perm()&0o002 == 0 {
		o.Dirs = append(o.Dirs, entrypoint.Dir{Path: workspace, Owner: o.Agents})
	}
}

func orText(s, other string) string {
	if s != "" {
		return s
	}
	return other
}
