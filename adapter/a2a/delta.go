package a2a

import (
	"bytes"
	"encoding/json"
	"strconv"

	"innerd/events"
)

// The places in a line of the log that is a delta of a message, which nearly
// all lines are. The log writes them so.
const (
	lineID    = `{"id":`
	lineTS    = `,"ts":`
	lineDelta = `,"type":"` + string(events.TypeMessageDelta) + `","data":{"delta":`
	lineMsg   = `,"message_id":"`
	lineEnd   = `"}}`
)

// deltaOf reads a delta's line without looking at it four times, as reading it
// as JSON does. False: it is another line, or is written otherwise.
func deltaOf(line []byte) (e events.Event, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(lineID))
	if !ok {
		return e, false
	}
	id, rest, ok1 := bytes.Cut(rest, []byte(lineTS))
	ts, rest, ok2 := bytes.Cut(rest, []byte(lineDelta))
	if !ok1 || !ok2 || len(ts) > 20 || len(rest) == 0 || rest[0] != '"' {
		return e, false
	}
	end, plain := endOfText(rest)
	if end < 0 {
		return e, false
	}
	text := string(rest[1 : end-1])
	if !plain && json.Unmarshal(rest[:end], &text) != nil {
		return e, false
	}
	msg, ok := bytes.CutPrefix(rest[end:], []byte(lineMsg))
	if !ok {
		return e, false
	}
	msg, ok = bytes.CutSuffix(msg, []byte(lineEnd))
	if !ok || bytes.ContainsAny(msg, `"\`) {
		return e, false
	}
	var err1, err2 error
	e.ID, err1 = strconv.ParseInt(string(id), 10, 64)
	e.TS, err2 = strconv.ParseInt(string(ts), 10, 64)
	e.Data = events.MessageDelta{Delta: text, MessageID: string(msg)}
	return e, err1 == nil && err2 == nil
}

// endOfText is where the JSON text at the beginning of b ends, behind its
// quote, or -1. plain: there is nothing escaped in it.
func endOfText(b []byte) (end int, plain bool) {
	plain = true
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			plain = false
			i++
		case '"':
			return i + 1, plain
		}
	}
	return -1, plain
}
