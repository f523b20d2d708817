package modelstub

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// player streams one turn.
type player struct {
	*exchange
	buf *bufio.Writer
	out renderer
}

// play answers a request for a stream.
func (x *exchange) play(t Turn) {
	for _, o := range t.before {
		if err := x.before(o); err != nil {
			return
		}
	}
	if t.Fail != nil {
		x.fail(*t.Fail)
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Request-Id", x.id)
	p := &player{exchange: x, buf: bufio.NewWriterSize(x.w, 64<<10)}
	p.out = x.d.stream(p.buf, x.req)
	rp := x.reply(t)
	p.out.begin(rp)
	if p.blocks(t.Blocks) != nil {
		return
	}
	p.out.end(rp)
	_ = p.flush() // the client may leave once it has the last event
}

// before does what comes ahead of the headers.
func (x *exchange) before(o op) error {
	switch {
	case o.hold != nil:
		o.hold.arrive()
		return x.wait(o.hold.released)
	case o.sleep > 0:
		return x.sleep(o.sleep)
	case o.cut != "":
		return x.cut(o.cut)
	default:
		return x.wait(nil)
	}
}

func (p *player) blocks(bs []Block) error {
	i := 0
	for _, b := range bs {
		if b.kind == kindControl {
			if err := p.pieces(i, b); err != nil {
				return err
			}
			continue
		}
		c := p.content(b)
		p.out.open(i, c)
		if err := p.pieces(i, b); err != nil {
			return err
		}
		p.out.shut(i, c, func() string { return b.expand(p.req) })
		i++
	}
	return nil
}

// pieces streams what is in a block. Deltas are not flushed one by one where
// nothing waits between them: a million of them must not cost a million writes.
func (p *player) pieces(i int, b Block) error {
	first := true
	for _, pc := range b.pieces {
		if pc.op != nil {
			if err := p.do(*pc.op); err != nil {
				return err
			}
			continue
		}
		for chunk := range b.chunks(pc, p.req) {
			if b.delay > 0 && !first {
				if err := p.pause(b.delay); err != nil {
					return err
				}
			}
			first = false
			p.out.delta(i, b.kind, chunk)
			if p.r.Context().Err() != nil {
				return errGone
			}
		}
	}
	return nil
}

func (p *player) pause(d time.Duration) error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.sleep(d)
}

func (p *player) flush() error {
	if err := p.buf.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(p.w).Flush()
}

// do lets an op happen to the stream.
func (p *player) do(o op) error {
	if o.event != "" {
		p.out.event(o.event, o.data)
		return nil
	}
	if o.fail != nil {
		p.out.fail(*o.fail, p.id)
		_ = p.flush() // the stream is over either way
		return errOver
	}
	if err := p.flush(); err != nil {
		return err
	}
	return p.before(o)
}

// chunks are the deltas of a piece.
func (b Block) chunks(pc piece, r *Request) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for range pc.repeat {
			if !yield(pc.text) {
				return
			}
		}
		if pc.repeat > 0 {
			return
		}
		n := b.chunk
		if n <= 0 {
			n = defaultChunk
		}
		for s := b.fill(pc, r); s != ""; {
			k := runes(s, n)
			if !yield(s[:k]) {
				return
			}
			s = s[k:]
		}
	}
}

// runes is the length of the longest prefix of whole characters with at most
// n bytes, or of the first character.
func runes(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

// fill is the text of a piece for this request.
func (b Block) fill(pc piece, r *Request) string {
	if pc.repeat > 0 {
		return strings.Repeat(pc.text, pc.repeat)
	}
	if b.kind == kindTool && !b.custom {
		return r.expand(pc.text, inString)
	}
	return r.expand(pc.text, nil)
}

// expand is all that a block says.
func (b Block) expand(r *Request) string {
	if len(b.pieces) == 1 && b.pieces[0].op == nil {
		return b.fill(b.pieces[0], r)
	}
	var sb strings.Builder
	for _, pc := range b.pieces {
		if pc.op == nil {
			sb.WriteString(b.fill(pc, r))
		}
	}
	return sb.String()
}

// size counts the bytes of a turn, for its usage.
func (t Turn) size(r *Request) (said, thought int) {
	for _, b := range t.Blocks {
		n := 0
		for _, pc := range b.pieces {
			if pc.repeat > 0 {
				n += len(pc.text) * pc.repeat
			} else if pc.op == nil {
				n += len(b.fill(pc, r))
			}
		}
		if b.kind == kindThinking {
			thought += n
		} else {
			said += n
		}
	}
	return said, thought
}

// inString makes s fit between the quotes of a JSON string.
func inString(s string) string {
	js, _ := json.Marshal(s) // cannot fail for a string
	return string(js[1 : len(js)-1])
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
