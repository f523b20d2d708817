package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"innerd/events"
	"innerd/host"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{usageError{errors.New("x")}, 2},
		{fmt.Errorf("wrapped: %w", &host.Error{ErrorType: host.TypeUnreachable}), 3},
		{&host.Error{Status: 401}, 4},
		{&host.Error{Status: 400}, 2},
		{&host.Error{Status: 503}, 5},
		{&host.Error{Status: 500}, 1},
		{context.DeadlineExceeded, 6},
		{context.Canceled, 130},
		{exitError{code: 7}, 7},
	} {
		if got := exitOf(io.Discard, "innerd", c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestExitOfEnd(t *testing.T) {
	for errorType, want := range map[string]int{
		events.ErrAuth: 4, events.ErrBackendUnavailable: 3, events.ErrQuota: 5, events.ErrOverloaded: 5,
		events.ErrTimeout: 6, events.ErrStalled: 6, events.ErrBackendCrashed: 1, events.ErrEmptyTurn: 1,
	} {
		e := events.NewError(errorType, "x")
		if got := exitOfEnd(&events.End{State: events.Failed}, &e); got != want {
			t.Errorf("%s: %d, want %d", errorType, got, want)
		}
	}
	if got := exitOfEnd(&events.End{State: events.Canceled}, nil); got != 130 {
		t.Errorf("canceled: %d", got)
	}
}
