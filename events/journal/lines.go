package journal

import (
	"context"
	"errors"
	"io"
	"iter"

	"innerd/events"
)

// Events gives the events as they come, decoded; it ends at the end of an
// ended log. An error is the last that it gives.
func (c *Cursor) Events(ctx context.Context) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for {
			b, err := c.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(events.Event{}, err)
				return
			}
			for line := range b.Lines() {
				e, err := events.ParseLine(line) // which copies what it keeps
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// Snapshot gives the events after an id that are visible now, decoded.
func (l *Log) Snapshot(after int64, f Filter) iter.Seq2[events.Event, error] {
	return l.Until(context.Background(), after, l.Last(), f)
}

// Until gives the events after an id up to the one that Append has given
// another, decoded, and waits for those that are not visible yet.
func (l *Log) Until(ctx context.Context, after, last int64, f Filter) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		err := l.part(after, last, f, func(c *Cursor) { c.Events(ctx)(yield) })
		if err != nil {
			yield(events.Event{}, err)
		}
	}
}

// Lines gives the lines after an id that are visible now, as they are written,
// each valid until the next. An error, and that is the cause of ctx where it
// ends, is the last that it gives.
func (l *Log) Lines(ctx context.Context, after int64, f Filter) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		err := l.part(after, l.Last(), f, func(c *Cursor) { c.lines(ctx, yield) })
		if err != nil {
			yield(nil, err)
		}
	}
}

// part has read go through the events after an id up to another, if there are
// any.
func (l *Log) part(after, last int64, f Filter, read func(*Cursor)) error {
	c, err := l.Follow(after, f)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.until = last; last > c.pos {
		read(c)
	}
	return nil
}

func (c *Cursor) lines(ctx context.Context, yield func([]byte, error) bool) {
	for {
		b, err := c.Next(ctx)
		if err == nil && ctx.Err() != nil { // it gives what is there all the same
			err = context.Cause(ctx)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				yield(nil, err)
			}
			return
		}
		for line := range b.Lines() {
			if !yield(line, nil) {
				return
			}
		}
	}
}
