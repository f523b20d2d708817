package entrypoint

import (
	"context"
	"os"
	"syscall"
	"time"

	"innerd/backends"
)

// keep runs a service until done, and starts it again as it says.
func (e *entry) keep(ctx context.Context, s Service) {
	user := s.Program.User
	if user == nil {
		user = e.o.Agents
	}
	if user == nil {
		user = &backends.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	}
	starter := backends.StarterAs(*user, e.o.Sweeper, e.orphans)
	defer starter.(interface{ Close() error }).Close()
	backoff := minBackoff
	for {
		began := time.Now()
		end, err := e.serveOnce(ctx, starter, s)
		if e.over() {
			return
		}
		failed := err != nil || end.Code != 0
		if s.Restart == RestartNever || s.Restart == RestartOnFailure && !failed {
			e.log.Info("a service ended", "service", s.Name, "code", end.Code, "signal", signalName(end.Signal), "error", err)
			return
		}
		if time.Since(began) > healthy {
			backoff = minBackoff
		}
		e.log.Warn("a service ended; it is started again", "service", s.Name, "code", end.Code,
			"signal", signalName(end.Signal), "error", err, "in", backoff.String())
		select {
		case <-time.After(backoff):
		case <-e.done:
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (e *entry) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// serviceGrace is what a service has between TERM and KILL.
const serviceGrace = 2 * time.Second

// serveOnce runs a service to its end; done stops it and all of its session.
func (e *entry) serveOnce(ctx context.Context, starter backends.Starter, s Service) (backends.ProcessEnd, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return backends.ProcessEnd{}, err
	}
	defer null.Close()
	mark := "service." + s.Name
	spec := backends.Process{
		Path: s.Program.Path, Args: s.Program.Args, Dir: orRoot(s.Program.Dir),
		Env: append(append([]string{}, s.Program.Env...), "INNERD_MARK="+mark),
	}
	id, err := starter.Start(spec, []*os.File{null, e.stdout(), e.stderr()})
	if err != nil {
		return backends.ProcessEnd{}, err
	}
	ended := make(chan struct{})
	go func() { // ends with the service
		_ = starter.Wait(id)
		close(ended)
	}()
	select {
	case <-ended:
	case <-e.done:
		_ = starter.Signal(id, syscall.SIGTERM, true)
		select {
		case <-ended:
		case <-time.After(serviceGrace):
			_ = starter.Signal(id, syscall.SIGKILL, true)
			<-ended
		}
	}
	sweep, cancel := context.WithTimeout(context.WithoutCancel(ctx), serviceGrace)
	defer cancel()
	if err := starter.Sweep(sweep, backends.ProcessTarget{IDs: []backends.ProcessID{id}, Mark: mark}); err != nil {
		e.log.Warn("what a service started is left", "service", s.Name, "error", err)
	}
	return starter.Reap(id)
}
