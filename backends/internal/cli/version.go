package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"

	"innerd/backends"
	"innerd/backends/internal/proc"
)

// Versions remembers what each binary has said of itself. The zero value is
// ready; safe for concurrent use.
type Versions struct {
	mu  sync.Mutex
	all map[string]*version
}

type version struct {
	once sync.Once
	text string
	err  error
}

// Of gives the version of the binary at path as ask tells it. The first who asks
// has it asked, the others wait for the same answer; a failure is not kept.
func (v *Versions) Of(path string, ask func() (string, error)) (string, error) {
	key, err := Key(path)
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	x := v.all[key]
	if x == nil {
		x = new(version)
		if v.all == nil {
			v.all = map[string]*version{}
		}
		v.all[key] = x
	}
	v.mu.Unlock()
	x.once.Do(func() { x.text, x.err = ask() })
	if x.err != nil { // the next who asks tries again
		v.mu.Lock()
		if v.all[key] == x {
			delete(v.all, key)
		}
		v.mu.Unlock()
	}
	return x.text, x.err
}

// Key is another one for another binary at the same path.
func Key(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(path, info.ModTime().UnixNano(), info.Size()), nil
}

// maxSaid bounds what is kept of an answer.
const maxSaid = 1 << 10

// Say runs a program to its end and gives what it printed.
func Say(ctx context.Context, children *backends.Children, cmd proc.Command) (string, error) {
	var out bytes.Buffer
	cmd.OnLine = func(line []byte) {
		if out.Len() < maxSaid {
			out.Write(line)
			out.WriteByte('\n')
		}
	}
	child, err := children.Start(ctx, cmd)
	if err != nil {
		return "", err
	}
	child.CloseInput()
	select {
	case <-child.Done():
	case <-ctx.Done():
		_ = child.Stop(ctx)
		return "", context.Cause(ctx)
	}
	if exit := child.Exit(); exit.Code != 0 {
		return "", fmt.Errorf("exit code %d: %s", exit.Code, backends.LastWords(exit.StderrTail))
	}
	return out.String(), nil
}
