package sse

import (
	"net/http"

	"innerd/events"
)

// ContentType of a stream.
const ContentType = "text/event-stream"

// DoneFrame ends the stream of a run.
const DoneFrame = "data: " + done + "\n\n"

// SetHeader sets the headers of a response that is a stream: not kept, not
// changed and not gathered by anything on its way.
func SetHeader(h http.Header) {
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
	h.Del("Content-Encoding")
}

// AppendFrame appends the frame of an event that is in no log, a heartbeat: it
// has no id. Events of a log have their frames from there.
func AppendFrame(dst []byte, d events.Data) ([]byte, error) {
	n := len(dst)
	dst, err := events.AppendLine(append(dst, "data: "...), 0, 0, d)
	if err != nil {
		return dst[:n], err
	}
	return append(dst, "\n\n"...), nil
}
