package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"

	"innerd/cmd/innerd/shield"
	"innerd/image/entrypoint"
)

// servicesFile is a list of programs beside the server.
type servicesFile struct {
	Services []struct {
		Name    string             `json:"name"`
		Command []string           `json:"command"`
		User    string             `json:"user"` // as --agent-user; "": the agents'
		Dir     string             `json:"dir"`
		Env     map[string]string  `json:"env"`
		Restart entrypoint.Restart `json:"restart"`
	} `json:"services"`
}

var serviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// readServices reads a services file; "" is none. Services get the environment
// without its keys.
func (a *app) readServices(ctx context.Context, path string, env []string) ([]entrypoint.Service, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := a.readInput(ctx, path)
	if err != nil {
		return nil, usageError{fmt.Errorf("--services: %w", err)}
	}
	var file servicesFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, usageError{fmt.Errorf("--services %s: %w", path, err)}
	}
	var out []entrypoint.Service
	for i, s := range file.Services {
		bad := func(err error) error {
			return usageError{fmt.Errorf("--services %s: services[%d] %s: %w", path, i, s.Name, err)}
		}
		switch {
		case !serviceName.MatchString(s.Name):
			return nil, bad(errors.New("name must be of a-z, 0-9, _ and -"))
		case slices.ContainsFunc(out, func(o entrypoint.Service) bool { return o.Name == s.Name }):
			return nil, bad(errors.New("there are two of that name"))
		case len(s.Command) == 0:
			return nil, bad(errors.New("command is empty"))
		case !slices.Contains([]entrypoint.Restart{"", entrypoint.RestartAlways, entrypoint.RestartOnFailure, entrypoint.RestartNever}, s.Restart):
			return nil, bad(fmt.Errorf("restart %q must be always, on-failure or never", s.Restart))
		}
		program, err := exec.LookPath(s.Command[0])
		if err != nil {
			return nil, bad(err)
		}
		svc := entrypoint.Service{Name: s.Name, Restart: s.Restart, Program: entrypoint.Program{
			Path: program, Args: s.Command, Dir: s.Dir, Env: serviceEnv(env, s.Env),
		}}
		if s.User != "" && os.Getuid() == 0 {
			u, err := lookup(s.User, agentUser)
			if err != nil {
				return nil, bad(err)
			}
			svc.Program.User = &u.id
		}
		out = append(out, svc)
	}
	return out, nil
}

func serviceEnv(env []string, more map[string]string) []string {
	e := newEnviron(env)
	for name := range e.vars {
		if shield.Secret(name) {
			delete(e.vars, name)
		}
	}
	e.order = slices.DeleteFunc(e.order, func(name string) bool { return shield.Secret(name) })
	for name, v := range more {
		e.set(name, v)
	}
	return e.list()
}
