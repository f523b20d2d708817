//go:build linux || darwin

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"innerd/backends"
	"innerd/image/entrypoint"
)

// inherited takes the connection whose descriptor a variable names; nil where
// there is none. Agents get neither.
func inherited(name string) (*net.UnixConn, error) {
	text := os.Getenv(name)
	if text == "" {
		return nil, nil
	}
	_ = os.Unsetenv(name)
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not for users", name, text)
	}
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("%s=%s is not for users: %w", name, text, err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s=%s is not for users", name, text), conn.Close())
	}
	return unix, nil
}

// apart is how agents are started as another user than this one: by process 1,
// which kept the right to. The zero value starts them here.
type apart struct {
	starter backends.Starter
	group   int
}

func startsApart() (apart, error) {
	conn, err := inherited(entrypoint.StarterVar)
	if conn == nil || err != nil {
		return apart{}, err
	}
	group, err := strconv.Atoi(os.Getenv(entrypoint.AgentGroupVar))
	_ = os.Unsetenv(entrypoint.AgentGroupVar)
	if err != nil {
		return apart{}, errors.Join(fmt.Errorf("%s is not for users", entrypoint.AgentGroupVar), conn.Close())
	}
	return apart{starter: backends.RemoteStarter(conn), group: group}, nil
}
