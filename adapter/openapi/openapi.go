// Package openapi is the description of the HTTP API: a table of its
// operations, and what makes an OpenAPI 3.1 document of it and of the Go types
// that the server answers with. Nothing of it is in the server, which has the
// finished document (package published); tests compare both with each other,
// and the table with the routes and errors that there are.
//
// A new route needs a row here, a new error a Fault; then
// go test -tags nomsgpack ./test/schema -update writes the documents.
package openapi

import (
	"net/http"
	"strings"
)

// Operation is one method of one path.
type Operation struct {
	Method string
	Path   string // as OpenAPI has it: "/tasks/{id}:cancel"
	ID     string
	Tag    string
	Title  string // a few words
	About  string // the rest, "" where there is none
	Open   bool   // it needs no key
	Params []Param
	Body   *Body // nil: none is read
	// Answers are those that are no errors.
	Answers []Answer
	Faults  []Fault
}

// Param is a parameter in the query, a header or the path. Those of the path
// that nothing is said of are texts.
type Param struct {
	Name    string
	In      string // "query", "header", "path"
	About   string
	Schema  map[string]any
	Example any // nil: none; required in paths
}

// Body is what a request brings.
type Body struct {
	Type     any // a value of the Go type, or a schema as map[string]any
	Optional bool
	Examples []Example
}

// Example is a request that works. Each is sent to a server by a test; parts
// of the path that only the server can make are put in there.
type Example struct {
	Name  string
	Title string
	Value string // JSON
}

// Answer is an answer that is no error.
type Answer struct {
	Status  int
	About   string
	Type    any    // nil: no body
	Media   string // "": JSON
	Headers map[string]string
	Events  bool // Media is a stream of the events of runs
	Example string
}

// Fault is a way in which an operation fails.
type Fault struct {
	Status int
	Type   string // error_type; "": any that a run can have
	When   string
	// Errors are the errors of the server that it stands for, in their own
	// words: a test looks that none is missing.
	Errors []string
	Body   string // the component that is the body's schema; "": Error
	// Response is a component that is the whole answer, instead.
	Response string
	Text     bool // it is a text, and not JSON
}

func fault(status int, errorType, when string, errors ...string) Fault {
	return Fault{Status: status, Type: errorType, When: when, Errors: errors}
}

// as gives a fault another body than Error.
func (f Fault) as(body string) Fault {
	f.Body = body
	return f
}

// Operations is the table, in the order in which a reader wants it.
func Operations() []Operation {
	var all []Operation
	for _, part := range [][]Operation{messages(), tasks(), conversations(), server(), agents(), a2a(), legacy()} {
		all = append(all, part...)
	}
	return all
}

// Anywhere are the faults of requests that are none of the operations.
func Anywhere() []Fault {
	return []Fault{
		fault(404, "not_found", "the path is none of these", "no such endpoint"),
		fault(405, "unsupported", "the path does not know the method", "this endpoint does not know the method"),
	}
}

// Beforehand are the faults that HTTP itself finds, before a path is looked
// at: those of every operation, whoever serves it.
func Beforehand() []Fault {
	return []Fault{
		{Status: http.StatusExpectationFailed, When: "Expect asks for something else than 100-continue; without a body"},
		{Status: http.StatusRequestHeaderFieldsTooLarge, When: "the headers are longer than 64 KiB, as text", Text: true},
	}
}

// Faults that are those of many operations.
var (
	badVersion = fault(http.StatusBadRequest, "-", "A2A-Version names one that is not spoken here: a JSON-RPC error that lists those that are").as("VersionError")
	noKey      = fault(http.StatusUnauthorized, "unauthorized", "no key, or one that is not known here", "no key, or one that is not known here: send Authorization: Bearer SECRET")
	refused    = fault(http.StatusForbidden, "unauthorized", "a name that this server does not answer to over loopback, or a page of another site", "*adapter.refusal")
	broken     = fault(http.StatusInternalServerError, "internal", "a fault of the server, or, for calls that runs are made of, it is still starting after 30 s", "the server is still starting", "a fault in the server, see its log")

	noPlace = fault(http.StatusInternalServerError, "internal", "more calls wait for the place of a stream, --max-connections, than can", "all streams that this server serves at once are taken, and so are the places to wait for one; try again later, or raise --max-connections")

	badBody  = fault(http.StatusBadRequest, "invalid_request", "the body is not JSON, or a field cannot be used: detail names it", "*adapter.bodyError", "*api.FieldError", "*backends.FieldError")
	badQuery = fault(http.StatusBadRequest, "invalid_request", "a parameter cannot be used: detail names it", "*backends.FieldError")
	slowBody = fault(http.StatusRequestTimeout, "invalid_request", "nothing of the body came for 60 s", "the body did not arrive")
	tooLarge = fault(http.StatusRequestEntityTooLarge, "too_large", "the body is longer than --max-body", "the body is too large")

	notYet  = fault(http.StatusServiceUnavailable, "busy", "the server is still starting after 30 s; Retry-After says when to ask again", "the server takes this when it has started; ask again")
	tooMany = fault(http.StatusTooManyRequests, "rate_limit", "more calls with this key than --rate-limit", "*adapter.tooManyError")

	noRun    = fault(http.StatusNotFound, "not_found", "there is no such run of yours", "no such run")
	stopping = fault(http.StatusInternalServerError, "shutdown", "the server is stopping", "innerd is shutting down")
	agentCan = fault(http.StatusNotImplemented, "unsupported", "this agent cannot", "not supported")
	agentHas = fault(http.StatusBadGateway, "", "the agent failed; detail begins as message of a session.error", "*backends.Error")
	canceled = fault(http.StatusConflict, "conflict", "it was canceled meanwhile", "canceled")
)

// kept is an operation of the host-loop profile: with a key, and with what
// every request of it can meet.
func kept(o Operation) Operation {
	o.Faults = append([]Fault{badVersion, noKey, refused, broken}, o.Faults...)
	if !ofRuns(o) {
		o.Faults = append(o.Faults, tooMany, notYet)
	}
	if o.Body != nil {
		o.Faults = append(o.Faults, badBody, slowBody, tooLarge)
	}
	return o
}

// ofRuns reports whether an operation is one of those that runs are made of,
// which no rate limits.
func ofRuns(o Operation) bool {
	for _, p := range []string{"/message:", "/tools/", "/tasks/"} {
		if o.Method == http.MethodPost && strings.HasPrefix(o.Path, p) {
			return true
		}
	}
	return o.Path == "/tasks/{id}/events"
}

// conflict is a 409 that stands for errors.
func conflict(when string, errors ...string) Fault {
	return fault(http.StatusConflict, "conflict", when, errors...)
}

// Schemas that are short enough to stand where they are used.
func text(extra ...any) map[string]any {
	s := map[string]any{"type": "string"}
	for i := 0; i+1 < len(extra); i += 2 {
		s[extra[i].(string)] = extra[i+1]
	}
	return s
}

func number(from, to int) map[string]any {
	s := map[string]any{"type": "integer", "minimum": from}
	if to > 0 {
		s["maximum"] = to
	}
	return s
}

// ref is a component's schema.
func ref(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}
