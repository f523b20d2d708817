//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"innerd/adapter"
	"innerd/backends"
	"innerd/host"
)

const oneUID = `Agents run as the same user as innerd. That promises nothing against a hostile
agent: its shell can read the token and the log, and answer its own permission
requests. Keep secrets that it must not have out of this sandbox. See
docs/security.md.`

const twoUIDs = `The state directory belongs to user %d and the agent home to user %d: agents run
apart from the server, as "innerd init" starts them. See docs/security.md.`

// usersHere says whether agents are kept from the server, by whose the
// directories are that "innerd init" has made.
func usersHere(state, home string) string {
	s, err1 := os.Stat(state)
	h, err2 := os.Stat(home)
	if err1 == nil && err2 == nil {
		server, ok1 := s.Sys().(*syscall.Stat_t)
		agent, ok2 := h.Sys().(*syscall.Stat_t)
		if ok1 && ok2 && server.Uid != agent.Uid {
			return fmt.Sprintf(twoUIDs, server.Uid, agent.Uid)
		}
	}
	return oneUID
}

// doctorCmd looks at what a server here would find. It starts nothing that
// outlives it.
func (a *app) doctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works here, and what to do about the rest",
		Long: `Look at agents, keys, port and state directory the way "innerd serve" with the
same flags would, and say what to do where something is missing. It exits with
3 when there is no usable agent but the simulated one, with 1 when a server
could not work here.`,
		Example: "  innerd doctor\n  innerd doctor --listen :8080 --state-dir /data/innerd",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd) },
	}
	addSettings(cmd, serveSettings())
	return cmd
}

// finding is one line of doctor's report.
type finding struct {
	bad  bool
	what string
	text string
	hint string
}

func (f finding) print(w io.Writer) {
	mark := "ok "
	if f.bad {
		mark = "-- "
	}
	fmt.Fprintf(w, "%s %-12s %s\n", mark, f.what, f.text)
	if f.hint != "" {
		fmt.Fprintf(w, "    %-12s %s\n", "", f.hint)
	}
}

func (a *app) doctor(cmd *cobra.Command) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
	defer cancel()
	set, err := resolve(cmd, serveSettings(), a.getenv, a.warn)
	if err != nil {
		return err
	}
	state, err := dirOf(set.str("state-dir"), defaultStateDir(a.getenv))
	if err != nil {
		return err
	}
	home, err := dirOf(set.str("agent-home"), defaultAgentHome(a.getenv))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "innerd %s\n\nagents\n", versionString())
	usable, err := a.probeAgents(ctx, set, home)
	if err != nil {
		return err
	}
	fmt.Fprint(a.out, "\nserver\n")
	broken := false
	found := append([]finding{a.checkPort(ctx, set), checkState(state), a.checkAuth(ctx, set, state)}, checkLinks(home)...)
	for _, f := range found {
		f.print(a.out)
		broken = broken || f.bad
	}
	fmt.Fprintf(a.out, "\n%s\n", usersHere(state, home))
	switch {
	case broken:
		return exitError{code: exitFailed}
	case !usable:
		return exitError{code: exitUnavailable}
	}
	return nil
}

// probeAgents reports every agent, and whether one is usable that is not
// simulated.
func (a *app) probeAgents(ctx context.Context, set *resolved, home string) (usable bool, err error) {
	s := &server{app: a, log: newLogger(io.Discard, "text", "error"), cfg: &serverConfig{set: set, agentHome: home}}
	s.children = backends.NewChildren(backends.ChildrenOptions{Inherit: set.list("agent-env")})
	defer s.children.Close(context.WithoutCancel(ctx))
	if s.agents, err = s.makeAgents(ctx); err != nil {
		return false, err
	}
	for _, b := range s.agents {
		st := b.Probe(ctx)
		for st.Pending && ctx.Err() == nil { // bounded by doctor's own time
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			st = b.Probe(ctx)
		}
		f := finding{bad: !st.Usable, what: b.Name(), text: agentLine(st), hint: st.Hint}
		f.print(a.out)
		usable = usable || (st.Usable && b.Name() != "simulate")
		if err := b.Close(ctx); err != nil {
			return usable, err
		}
	}
	return usable, nil
}

// agentLine is an agent in a line: its version, what it would log in with,
// never the value of that, and why it cannot run.
func agentLine(st backends.Status) string {
	line := "not found"
	if st.Version != "" {
		line = "version " + st.Version
		if st.Pinned != "" && st.Pinned != st.Version {
			line += " (tested with " + st.Pinned + ")"
		}
	}
	if st.Login != "" && st.Login != "none" {
		line += ", by " + st.Login
		if st.Source != "" {
			line += ": " + st.Source
		}
	}
	if st.Why != "" {
		line += "; " + st.Why
	}
	return line
}

// checkPort says whether the address is free, or whose it is.
func (a *app) checkPort(ctx context.Context, set *resolved) finding {
	address := listenAddress(set)
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return finding{what: "port", text: address + " is free"}
	}
	name, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(name); name == "" || (ip != nil && ip.IsUnspecified()) {
		name = "127.0.0.1"
	}
	c, cerr := host.New("http://"+net.JoinHostPort(name, port), nil)
	if cerr == nil {
		defer c.CloseIdleConnections()
		if answers(ctx, c) {
			return finding{what: "port", text: address + ": an innerd answers there"}
		}
	}
	return finding{bad: true, what: "port", text: address + ": " + err.Error(), hint: "another program has it; choose one with --listen"}
}

// checkState says whether the state directory can be written, without making
// what is not there.
func checkState(dir string) finding {
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return finding{bad: true, what: "state", text: at + " is not a directory", hint: "choose another with --state-dir"}
		}
		if err == nil {
			break
		}
		parent := filepath.Dir(at)
		if parent == at {
			break
		}
		at = parent
	}
	f, err := os.CreateTemp(at, ".innerd-doctor-*")
	if err != nil {
		return finding{
			bad: true, what: "state", text: dir + " cannot be written: " + err.Error(),
			hint: "a server would keep everything in memory only; choose another with --state-dir",
		}
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	if at != dir {
		return finding{what: "state", text: dir + " can be made"}
	}
	return finding{what: "state", text: dir + " can be written"}
}

// checkLinks finds the agents' folders that are links out of the agents' home:
// agents can make such links too, so the server goes through none of them.
func checkLinks(home string) (found []finding) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil // none yet
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	for _, agent := range []string{"claude", "codex", "copilot", "simulate"} {
		for _, name := range []string{agent, filepath.Join(agent, "attachments")} {
			if info, err := root.Lstat(name); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				continue
			}
			_, err := root.Stat(name)
			if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue
			}
			found = append(found, finding{
				bad: true, what: "agent home", text: filepath.Join(home, name) + " is a link that is not followed: " + err.Error(),
				hint: "mount the folder there instead (mount --bind), or move all of --agent-home, which may be a link itself",
			})
			break
		}
	}
	return found
}

// checkAuth says who may call, without making a token.
func (a *app) checkAuth(ctx context.Context, set *resolved, state string) finding {
	keys, err := a.keys(ctx, set)
	mode := set.str("auth")
	switch {
	case err != nil:
		return finding{bad: true, what: "keys", text: err.Error()}
	case mode == "off":
		return finding{what: "keys", text: "none are asked for: --auth=off", hint: "everybody who reaches the port may run commands here"}
	case len(keys) > 0:
		return finding{what: "keys", text: fmt.Sprintf("%d given", len(keys))}
	case mode == "auto" && fieldLaunch(a.getenv):
		return finding{what: "keys", text: "none are asked for: the field's launch, without keys", hint: "everybody who reaches the port may run commands here"}
	}
	return finding{what: "keys", text: "the token in " + filepath.Join(state, "token") + " (owner " + adapter.DefaultOwner + ")"}
}
