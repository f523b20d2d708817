//go:build unix

package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Lock takes an flock, which the kernel gives back when the process is gone,
// however it went.
func (osFS) Lock(name, content string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{Dir: filepath.Dir(name), PID: holder(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// What stands inside is for people and for the second server's message;
	// on a full disk the lock holds without it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(content), 0)
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func holder(f *os.File) int {
	buf := make([]byte, 64)
	n, _ := f.ReadAt(buf, 0)
	word, _, _ := strings.Cut(strings.TrimSpace(string(buf[:n])), " ")
	pid, _ := strconv.Atoi(word)
	return pid
}
