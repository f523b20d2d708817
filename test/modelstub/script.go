package modelstub

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Cut is a way for a connection to end too early.
type Cut string

const (
	// CutReset ends it with a TCP reset.
	CutReset Cut = "reset"
	// CutDrop closes it in the middle of the body.
	CutDrop Cut = "drop"
	// CutEOF ends the body as if it were whole.
	CutEOF Cut = "eof"
)

// Usage is the token count of a turn; the parts are disjoint.
type Usage struct {
	Input      int `json:"input"`       // not cached
	CacheRead  int `json:"cache_read"`  //
	CacheWrite int `json:"cache_write"` //
	Output     int `json:"output"`      // with thinking
	Thinking   int `json:"thinking"`    // the part of Output that was thinking
}

// Failure is an answer that is no message: an HTTP error, or an error event
// inside a stream.
type Failure struct {
	Status     int           // HTTP status; of an error event it is only used to name the type
	Type       string        // "": the provider's own for Status
	Code       string        // OpenAI's code; "": Type, else its own for Status
	Message    string        // "": a plausible one
	Body       string        // JSON in the place of the usual body
	RetryAfter time.Duration // 0: no header
	Header     http.Header   // further headers

	means meaning // what each API says in its own way
}

// meaning is a failure that is more than a status.
type meaning int

const (
	meansStatus meaning = iota
	meansContext
	meansCredit
)

// A Turn answers one model request. The zero Turn is an empty reply.
type Turn struct {
	Blocks     []Block
	Usage      *Usage // nil: estimated from the request and the reply, with a warm cache
	StopReason string // "": tool_use or end_turn
	Fail       *Failure

	before  []op // done before the headers
	times   int  // how many requests it answers; 0: one, negative: all that come
	instead []Block
	cutAll  Cut  // what a request without streaming meets
	retry   bool // instead is set
}

// Say is a turn that streams blocks.
func Say(blocks ...Block) Turn { return Turn{Blocks: blocks} }

// Empty is a reply without any content.
func Empty() Turn { return Turn{} }

// Fail is a turn that is an HTTP error of the provider's usual shape.
func Fail(status int) Turn { return Turn{Fail: &Failure{Status: status}} }

// RateLimited is a 429 with a Retry-After header (none if d is 0).
func RateLimited(d time.Duration) Turn {
	return Turn{Fail: &Failure{Status: http.StatusTooManyRequests, RetryAfter: d}}
}

// Overloaded is the answer of a provider that has too much to do: 529, or
// OpenAI's 503.
func Overloaded() Turn { return Fail(529) }

// ContextTooLong is the error for a prompt that does not fit the model.
func ContextTooLong() Turn {
	return Turn{Fail: &Failure{means: meansContext, Status: http.StatusBadRequest, Message: "prompt is too long: 1048999 tokens > 1000000 maximum"}}
}

// NoCredit is the error for an account without money: Anthropic's 400, OpenAI's
// 429 of type insufficient_quota.
func NoCredit() Turn {
	return Turn{Fail: &Failure{
		means:   meansCredit,
		Status:  http.StatusBadRequest,
		Message: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
	}}
}

// NoAnswer accepts the request and never sends a header.
func NoAnswer() Turn { return Turn{before: []op{{hang: true}}} }

// NoHeaders ends the connection before any header.
func NoHeaders(c Cut) Turn { return Turn{before: []op{{cut: c}}} }

// After waits d before the headers.
func (t Turn) After(d time.Duration) Turn { return t.ahead(op{sleep: d}) }

// Behind holds the headers back until g is released.
func (t Turn) Behind(g *Gate) Turn { return t.ahead(op{hold: g}) }

func (t Turn) ahead(o op) Turn {
	t.before = append(t.before[:len(t.before):len(t.before)], o)
	return t
}

// Uses sets the usage.
func (t Turn) Uses(u Usage) Turn { t.Usage = &u; return t }

// Stops sets the stop reason in Anthropic's words: max_tokens, refusal,
// stop_sequence, … OpenAI's APIs say theirs: length or incomplete, a refusal in
// the place of the text. content_filter is one that only they have.
func (t Turn) Stops(reason string) Turn { t.StopReason = reason; return t }

// Times lets the turn answer n requests instead of one.
func (t Turn) Times(n int) Turn { t.times = n; return t }

// Forever lets the turn answer every request from now on. Agents retry some
// failures (a 400 six times at once), so a failure that shall come out in the
// end is Forever.
func (t Turn) Forever() Turn { t.times = -1; return t }

// Instead sets what a request without streaming is answered with after this
// turn. Without it that is the turn's own content, whole and unharmed, or its
// failure. Agents make such a request when streams break repeatedly.
func (t Turn) Instead(blocks ...Block) Turn {
	t.instead, t.retry = blocks, true
	return t
}

// CutWhole ends the connection of a request without streaming, too: without it
// such a request is answered whole where the stream was cut.
func (t Turn) CutWhole(c Cut) Turn { t.cutAll = c; return t }

type blockKind int

const (
	kindControl blockKind = iota // no content: only ops
	kindText
	kindThinking
	kindTool
	kindRaw
)

// A Block is one content block of a reply, or something that happens between
// two blocks. Its methods return a changed copy.
type Block struct {
	kind             blockKind
	pieces           []piece
	id, name         string
	bad              bool // a tool's input that need not be JSON
	custom           bool // a freeform tool
	namespace, phase string
	raw              json.RawMessage
	chunk            int
	delay            time.Duration
}

// piece is text, or something that happens between two deltas.
type piece struct {
	text   string
	repeat int // number of deltas of exactly text; 0: text is cut by Block.chunk
	op     *op
}

// op is something that happens to a stream. One field is set.
type op struct {
	hold  *Gate
	sleep time.Duration
	cut   Cut
	hang  bool
	fail  *Failure
	event string // an SSE event of this name, with data
	data  string
}

const defaultChunk = 12

// Text says s in deltas of 12 bytes. In s, {{prompt}} stands for the last
// text of the user, {{tool_result}} for the last tool result of the request.
func Text(s string) Block { return Block{kind: kindText}.Add(s) }

// Thinking thinks s aloud.
func Thinking(s string) Block { return Block{kind: kindThinking}.Add(s) }

// Flood says n deltas of size bytes each, as fast as the client takes them.
func Flood(n, size int) Block {
	return Block{kind: kindText, pieces: []piece{{text: filler(size), repeat: n}}}
}

// Huge says one delta of size bytes.
func Huge(size int) Block { return Flood(1, size) }

// filler is readable ASCII without a character that JSON escapes.
func filler(n int) string {
	const word = "lorem ipsum dolor sit amet, "
	b := make([]byte, n)
	for i := 0; i < n; i += len(word) {
		copy(b[i:], word)
	}
	return string(b)
}

// Tool calls a tool; several in one turn are parallel calls. Input is
// marshalled; a json.RawMessage goes as it is. Strings in it are templates
// like those of Text. It panics on an input that is no JSON: see BadTool.
func Tool(name string, input any) Block {
	js, err := json.Marshal(input)
	if err != nil {
		panic("modelstub: input of tool " + name + ": " + err.Error())
	}
	return Block{kind: kindTool, name: name}.Add(string(js))
}

// BadTool calls a tool with a text as its input, which may be broken JSON.
func BadTool(name, input string) Block {
	return Block{kind: kindTool, name: name, bad: true}.Add(input)
}

// Custom calls a freeform tool of OpenAI's, like apply_patch, with a text.
// Anthropic has none: there it is a call with the text as its "input".
func Custom(name, input string) Block {
	return Block{kind: kindTool, name: name, bad: true, custom: true}.Add(input)
}

// Raw is a content block (Responses: an item; Chat Completions: a delta) given
// as JSON, for types that the script does not know.
func Raw(js string) Block { return Block{kind: kindRaw, raw: json.RawMessage(js)} }

// Control has no content: what happens to it happens between two blocks.
func Control() Block { return Block{} }

// ID sets a tool call's id. Otherwise ids are toolu_stub_0001 (OpenAI:
// call_stub_0001) and so on, and repeat in each scenario.
func (b Block) ID(id string) Block { b.id = id; return b }

// Namespace sets the group of tools that a called tool is in (Responses only).
func (b Block) Namespace(name string) Block { b.namespace = name; return b }

// Phase sets what a text is, commentary or final_answer (Responses only).
func (b Block) Phase(phase string) Block { b.phase = phase; return b }

// Chunk sets how many bytes a delta has at most; characters are never split.
func (b Block) Chunk(n int) Block { b.chunk = n; return b }

// Every waits d before each delta but the first.
func (b Block) Every(d time.Duration) Block { b.delay = d; return b }

// Add says more in the same block.
func (b Block) Add(s string) Block { return b.with(piece{text: s}) }

// Hold stops until g is released.
func (b Block) Hold(g *Gate) Block { return b.with(piece{op: &op{hold: g}}) }

// Sleep stops for d.
func (b Block) Sleep(d time.Duration) Block { return b.with(piece{op: &op{sleep: d}}) }

// Cut ends the connection here, in the middle of the block.
func (b Block) Cut(c Cut) Block { return b.with(piece{op: &op{cut: c}}) }

// Hang stops until the client goes away.
func (b Block) Hang() Block { return b.with(piece{op: &op{hang: true}}) }

// Overloaded sends an overloaded error as an event and ends the stream.
func (b Block) Overloaded() Block { return b.Error(Failure{Status: 529}) }

// Error sends f as an error event and ends the stream.
func (b Block) Error(f Failure) Block { return b.with(piece{op: &op{fail: &f}}) }

// Event sends an SSE event as it is.
func (b Block) Event(name, data string) Block { return b.with(piece{op: &op{event: name, data: data}}) }

func (b Block) with(p piece) Block {
	b.pieces = append(b.pieces[:len(b.pieces):len(b.pieces)], p)
	return b
}

// Replace puts text in the place of a word in all that the turn says, for what
// a script cannot know: the working directory, for example.
func (t Turn) Replace(word, by string) Turn {
	t.Blocks = append([]Block(nil), t.Blocks...)
	for i, b := range t.Blocks {
		b.pieces = append([]piece(nil), b.pieces...)
		for j := range b.pieces {
			b.pieces[j].text = strings.ReplaceAll(b.pieces[j].text, word, by)
		}
		t.Blocks[i] = b
	}
	return t
}
