package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"innerd/events"
	"innerd/host"
)

// newTaskID names a run here, so that Ctrl-C can cancel it before the server
// has answered.
func newTaskID() string { return "run-" + rand.Text() }

// watchInterrupts gives the signals that stop from now on. stop gives them
// back to the system.
func watchInterrupts() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, stopSignals()...)
	return c, func() { signal.Stop(c) }
}

// follow prints a run to its end. The first interrupt cancels it, which ends
// it like any other run; a second one quits. A run whose output nobody reads
// is left.
func (a *app) follow(ctx context.Context, c *host.Client, p *printer, interrupts <-chan os.Signal,
	stream iter.Seq2[events.Event, error], taskID string,
) error {
	survivePipes()
	done := make(chan struct{})
	w := &interrupter{app: a, client: c, task: taskID, signals: interrupts, done: done, ended: make(chan struct{})}
	go w.watch(context.WithoutCancel(ctx)) // ends with done
	defer func() { close(done); <-w.ended }()

	var end *events.End
	var failure *events.Error
	for ev, err := range stream {
		if err != nil {
			p.finish()
			if w.canceled.Load() {
				return exitError{exitCanceled, fmt.Errorf("canceled; its end was not seen: %w", err)}
			}
			return err
		}
		p.event(ev)
		if err := p.lost(); err != nil && !w.canceled.Load() { // a terminal that goes away is both
			return exitError{exitFailed, fmt.Errorf("nobody reads the output: %w", err)}
		}
		switch v := ev.Data.(type) {
		case events.Error:
			failure = &v
		case events.End:
			end = &v
		}
	}
	p.finish()
	if end == nil { // nothing after the id that was asked for
		return nil
	}
	if code := exitOfEnd(end, failure); code != exitOK {
		return exitError{code: code}
	}
	return nil
}

// interrupter cancels the run at the first signal and ends the process at the
// second.
type interrupter struct {
	app      *app
	client   *host.Client
	task     string
	signals  <-chan os.Signal
	done     <-chan struct{}
	ended    chan struct{}
	canceled atomic.Bool
}

func (w *interrupter) watch(ctx context.Context) {
	defer close(w.ended)
	select {
	case <-w.done:
		return
	case <-w.signals:
	}
	w.canceled.Store(true)
	fmt.Fprintln(w.app.err, "\ninnerd: canceling; once more quits")
	ctx, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	answered := make(chan struct{})
	go func() { // ends with the call, whose context watch ends
		defer close(answered)
		if _, err := w.client.Cancel(ctx, w.task, "by the user"); err != nil && ctx.Err() == nil {
			fmt.Fprintln(w.app.err, "innerd: cancel:", err)
		}
	}()
	select {
	case <-w.signals:
		w.app.tools.kill()
		os.Exit(exitCanceled)
	case <-w.done:
	}
	stop()
	<-answered
}
