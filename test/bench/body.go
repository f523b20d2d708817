package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// body measures how soon a host that sends 60 MB has its task's id: from the
// first byte of the request on, which is sent, read, decoded and kept until then.
func (b *bench) body(ctx context.Context) error {
	const size, rounds, goal = 60_000_000, 9, time.Second
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	word := strings.Repeat("All work and no play. ", 1000)
	messages := []any{}
	for n := 0; n < size; n += len(word) { // a long conversation, not one long text
		role := []string{"user", "assistant"}[len(messages)%2]
		messages = append(messages, object{"role": role, "content": word})
	}
	messages = append(messages, object{"role": "user", "content": hears})
	js, err := json.Marshal(object{
		"messages": messages,
		"metadata": object{"backend": "simulate", "agent_options": object{"script": []any{object{"text": "Read."}}}},
	})
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range rounds + 1 {
		d, err := in.untilTaskID(ctx, js)
		if err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			took = append(took, d)
		}
	}
	worst := quantile(took, 1)
	b.table.add(row{
		what:     fmt.Sprintf("a body of 60 MB, from its first byte to the task's id, the slowest of %d", rounds),
		measured: ms(worst), limit: ms(median(took)) + " median", goal: "≤ 1 s", ok: worst <= goal,
	})
	return nil
}

// untilTaskID posts and gives the time to the frame with the task's id.
func (p *process) untilTaskID(ctx context.Context, body []byte) (took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/message:stream", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() {
		_, rest := io.Copy(io.Discard, res.Body)
		err = errors.Join(err, rest, res.Body.Close())
	}()
	for r := bufio.NewReader(res.Body); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return 0, fmt.Errorf("no task id: %w", err)
		}
		if bytes.Contains(line, []byte(`"session.task_id"`)) {
			return time.Since(began), nil
		}
	}
}
