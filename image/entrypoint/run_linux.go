package entrypoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"innerd/backends"
)

// entry is one process 1 at work.
type entry struct {
	o       Options
	log     *slog.Logger
	orphans *backends.Orphans
	server  backends.Starter
	agents  backends.Starter // nil: the server starts them

	late late

	wg   sync.WaitGroup
	done chan struct{} // ends what runs beside the server
}

// ErrRights says that Agents was given and this process may not change users.
var ErrRights = errors.New("this process may not start others as another user: run the container as root, with the capabilities SETUID, SETGID and KILL")

// Run runs the server until it has been told to stop by one of signals, and
// gives its exit code. A server that ends by itself is started again; one that
// refuses its own command line is not. It may be called once.
func Run(ctx context.Context, signals <-chan os.Signal, o Options) (int, error) {
	e := &entry{o: o, log: o.Logger, orphans: backends.NewOrphans(), done: make(chan struct{})}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if o.Agents != nil && !canSwitch() {
		return 0, ErrRights
	}
	for _, d := range o.Dirs {
		if err := d.prepare(); err != nil {
			return 0, err
		}
	}
	if err := e.become(); err != nil {
		return 0, err
	}
	e.starters()
	defer e.close()
	e.wg.Go(e.reap)
	for _, s := range o.Services {
		e.wg.Go(func() { e.keep(ctx, s) })
	}
	return e.supervise(ctx, signals)
}

// become makes this process the one that orphans come to, with no more rights
// than it needs.
func (e *entry) become() error {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("adopt orphans: %w", err)
		}
	}
	if e.o.Agents == nil {
		return nil
	}
	if err := dropRights(); errors.Is(err, errors.ErrUnsupported) {
		e.log.Warn("this build keeps all rights of its user: build it with CGO_ENABLED=0")
	} else if err != nil {
		return err
	}
	return nil
}

func (e *entry) starters() {
	self := backends.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	user := e.o.Server.User
	if user == nil {
		user = &self
	}
	e.server = backends.StarterAs(*user, e.o.Sweeper, e.orphans)
	if e.o.Agents != nil {
		e.agents = backends.StarterAs(*e.o.Agents, e.o.Sweeper, e.orphans)
	}
}

func (e *entry) close() {
	close(e.done)
	e.wg.Wait()
	for _, s := range []backends.Starter{e.server, e.agents} {
		if c, ok := s.(io.Closer); ok {
			_ = c.Close()
		}
	}
}

// reap ends with done.
func (e *entry) reap() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	// Signals that come together are one, and an orphan may end before its
	// parent does: a look from time to time finds what no signal said.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-died:
		case <-tick.C:
		case <-e.done:
			return
		}
		e.orphans.Reap()
	}
}

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
	healthy    = time.Minute // a server that ran as long begins with no past
	// exitUsage of innerd: its command line or a variable is wrong.
	exitUsage = 2
)

// supervise ends with a stop signal, or with a server that cannot start.
func (e *entry) supervise(ctx context.Context, signals <-chan os.Signal) (int, error) {
	backoff := minBackoff
	for first := true; ; first = false {
		began := time.Now()
		end, stopped, err := e.once(ctx, signals)
		ran := time.Since(began)
		switch {
		case stopped:
			return codeOf(end), nil
		case err != nil && first:
			return 0, err
		case end.Signal == 0 && (end.Code == exitUsage || first && end.Code != 0 && ran < 2*time.Second):
			return codeOf(end), nil // the platform shall see it, not a loop
		case ran > healthy:
			backoff = minBackoff
		}
		e.log.Error("the server ended by itself; it is started again", "code", end.Code, "signal", signalName(end.Signal), "error", err,
			"ran", ran.Round(time.Millisecond).String(), "in", backoff.String())
		if stop := pause(ctx, signals, backoff); stop {
			return codeOf(end), nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func codeOf(end backends.ProcessEnd) int {
	if end.Signal != 0 {
		return 128 + int(end.Signal)
	}
	return end.Code
}

func signalName(s syscall.Signal) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

// pause reports whether a stop came meanwhile.
func pause(ctx context.Context, signals <-chan os.Signal, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return false
		case <-ctx.Done():
			return true
		case s := <-signals:
			if stops(s) {
				return true
			}
		}
	}
}

func stops(s os.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT
}

// once runs one server to its end, and what it started with it.
func (e *entry) once(ctx context.Context, signals <-chan os.Signal) (end backends.ProcessEnd, stopped bool, err error) {
	links, err := e.links()
	if err != nil {
		return end, false, err
	}
	id, err := e.server.Start(e.spec(), append([]*os.File{links.null, e.stdout(), e.stderr()}, links.theirs...))
	closeAll(links.theirs, links.null)
	if err != nil {
		links.close()
		return end, false, fmt.Errorf("start the server: %w", err)
	}
	var serving sync.WaitGroup
	if links.starter != nil {
		serving.Go(func() { // ends with the server's side of the socket
			if err := backends.ServeStarter(ctx, links.starter, e.agents); err != nil {
				e.log.Error("the server's requests could not be read", "error", err)
			}
		})
	}
	serving.Go(func() { e.late.serve(links.late) }) // likewise
	if started := e.o.Started; started != nil {
		e.o.Started = nil
		started()
	}
	stopped = e.watch(ctx, signals, id)
	serving.Wait()
	end, err = e.server.Reap(id)
	return end, stopped, err
}

// watch waits until the server has ended, and passes signals on; it reports
// whether one of them was to stop.
func (e *entry) watch(ctx context.Context, signals <-chan os.Signal, id backends.ProcessID) (stopped bool) {
	ended := make(chan struct{})
	go func() { // ends with the server
		_ = e.server.Wait(id)
		close(ended)
	}()
	var kill <-chan time.Time
	stop := func(s syscall.Signal) {
		stopped = true
		_ = e.server.Signal(id, s, false)
		if kill == nil {
			kill = time.After(e.grace())
		}
	}
	over := ctx.Done()
	for {
		select {
		case <-ended:
			return stopped
		case <-over:
			over = nil
			stop(syscall.SIGTERM)
		case s := <-signals:
			sig, _ := s.(syscall.Signal)
			if stops(s) {
				stop(syscall.SIGTERM)
			} else {
				_ = e.server.Signal(id, sig, false)
			}
		case <-kill:
			e.log.Error("the server did not stop in time; it is killed", "grace", e.grace().String())
			_ = e.server.Signal(id, syscall.SIGKILL, false)
		}
	}
}

func (e *entry) grace() time.Duration {
	if e.o.Grace > 0 {
		return e.o.Grace
	}
	return 10 * time.Second
}

func (e *entry) stdout() *os.File { return orElse(e.o.Stdout, os.Stdout) }
func (e *entry) stderr() *os.File { return orElse(e.o.Stderr, os.Stderr) }

func orElse(f, other *os.File) *os.File {
	if f != nil {
		return f
	}
	return other
}

// spec is the server's, with the descriptors that links hands it from 3 on.
func (e *entry) spec() backends.Process {
	p := e.o.Server
	env := append([]string{}, p.Env...)
	fd := 3
	if e.agents != nil {
		env = append(env, StarterVar+"="+strconv.Itoa(fd), AgentGroupVar+"="+strconv.Itoa(int(e.o.Agents.GID)))
		fd++
	}
	env = append(env, LateVar+"="+strconv.Itoa(fd))
	return backends.Process{Path: p.Path, Args: p.Args, Env: env, Dir: orRoot(p.Dir)}
}

func orRoot(dir string) string {
	if dir == "" {
		return "/"
	}
	return dir
}

// links are the sockets between this process and one server.
type links struct {
	starter, late *net.UnixConn
	theirs        []*os.File
	null          *os.File
}

func (e *entry) links() (l links, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.null, err = os.Open(os.DevNull); err != nil {
		return l, err
	}
	if e.agents != nil {
		if l.starter, err = l.pair(); err != nil {
			return l, err
		}
	}
	l.late, err = l.pair()
	return l, err
}

// pair makes a connection and keeps the server's end.
func (l *links) pair() (*net.UnixConn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	l.theirs = append(l.theirs, os.NewFile(uintptr(fds[1]), "the server's"))
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func (l *links) close() {
	closeAll(l.theirs, l.null)
	for _, c := range []*net.UnixConn{l.starter, l.late} {
		if c != nil {
			_ = c.Close()
		}
	}
}

func closeAll(files []*os.File, more ...*os.File) {
	for _, f := range append(files, more...) {
		if f != nil {
			_ = f.Close()
		}
	}
}
