package journal

import (
	"context"
	"errors"
	"io"
	"iter"
)

// Lines gives the lines after an id that are visible now, as they are written,
// each valid until the next. An error, and that is the cause of ctx where it
// ends, is the last that it gives.
func (l *Log) Lines(ctx context.Context, after int64, f Filter) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		last := l.Last()
		c, err := l.Follow(after, f)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.Close()
		if c.until = last; last <= c.pos {
			return
		}
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
}
