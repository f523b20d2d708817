package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// standIn is what claudecli needs of a test.
type standIn struct {
	testing.TB
	ctx  context.Context
	ends []func()
}

var errStandIn = errors.New("claude over its pipes")

func (s *standIn) Helper()                  {}
func (s *standIn) Context() context.Context { return s.ctx }
func (s *standIn) Cleanup(f func())         { s.ends = append(s.ends, f) }
func (s *standIn) Error(args ...any)        { fmt.Fprintln(os.Stderr, args...) }
func (s *standIn) Errorf(f string, a ...any) {
	fmt.Fprintf(os.Stderr, f+"\n", a...)
}

func (s *standIn) Fatal(args ...any)         { panic(fmt.Errorf("%w: %s", errStandIn, fmt.Sprint(args...))) }
func (s *standIn) Fatalf(f string, a ...any) { s.Fatal(fmt.Sprintf(f, a...)) }

func (s *standIn) cleanup() {
	for _, f := range s.ends {
		f()
	}
}

// recovered makes an error of what a standIn found fatal.
func recovered(err *error) {
	v := recover()
	if v == nil {
		return
	}
	if e, ok := v.(error); ok && errors.Is(e, errStandIn) {
		*err = errors.Join(*err, e)
		return
	}
	panic(v)
}
