package main

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"innerd/backends"
)

// account is a user of the system.
type account struct {
	name string
	id   backends.User
}

// lookup finds a user by its name or uid[:gid]; "" is the usual one, by its
// name if the system knows it.
func lookup(text string, usual account) (account, error) {
	if text == "" {
		if u, err := user.Lookup(usual.name); err == nil {
			return accountOf(u)
		}
		return usual, nil
	}
	uid, gid, hasGID := strings.Cut(text, ":")
	n, err := strconv.ParseUint(uid, 10, 31)
	if err != nil {
		u, err := user.Lookup(text)
		if err != nil {
			return account{}, fmt.Errorf("there is no user %q", text)
		}
		return accountOf(u)
	}
	a := account{name: text, id: backends.User{UID: uint32(n), GID: uint32(n)}}
	if u, err := user.LookupId(uid); err == nil {
		if a, err = accountOf(u); err != nil {
			return a, err
		}
	}
	if hasGID {
		g, err := strconv.ParseUint(gid, 10, 31)
		if err != nil {
			return account{}, fmt.Errorf("%q: a group is a number", text)
		}
		a.id.GID = uint32(g)
	}
	return a, nil
}

func accountOf(u *user.User) (account, error) {
	uid, err1 := strconv.ParseUint(u.Uid, 10, 31)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 31)
	return account{name: u.Username, id: backends.User{UID: uint32(uid), GID: uint32(gid)}}, errors.Join(err1, err2)
}

// environ is an environment that is changed.
type environ struct {
	order []string
	vars  map[string]string
}

func newEnviron(list []string) *environ {
	e := &environ{vars: map[string]string{}}
	for _, kv := range list {
		name, v, _ := strings.Cut(kv, "=")
		e.set(name, v)
	}
	return e
}

func (e *environ) set(name, v string) {
	if _, ok := e.vars[name]; !ok {
		e.order = append(e.order, name)
	}
	e.vars[name] = v
}

func (e *environ) orElse(name, v string) {
	if e.vars[name] == "" {
		e.set(name, v)
	}
}

func (e *environ) list() []string {
	out := make([]string, 0, len(e.order))
	for _, name := range e.order {
		out = append(out, name+"="+e.vars[name])
	}
	return out
}
