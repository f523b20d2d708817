package adapter

import (
	"maps"
	"slices"
	"strings"
)

// Meaning is an error, in its own words, and what it is answered as.
type Meaning struct {
	Words     string
	Status    int
	ErrorType string
}

// Meanings are all errors that statusOf knows.
func Meanings() (out []Meaning) {
	for _, c := range statuses {
		out = append(out, Meaning{c.err.Error(), c.status, c.errorType})
	}
	for _, k := range kinds {
		out = append(out, Meaning{k.name, k.status, k.errorType})
	}
	status, errorType := statusOf(errPanic)
	return append(out, Meaning{errPanic.Error(), status, errorType}, Meaning{"*backends.Error", 502, ""})
}

// Routes are the routes of a server, each as "METHOD /path/{parameter}:verb".
func (s *Server) Routes() (out []string) {
	for _, r := range s.engine.Routes() {
		path := strings.ReplaceAll(r.Path, `\:`, ":")
		segs := strings.Split(path, "/")
		for i, seg := range segs {
			if name, ok := strings.CutPrefix(seg, ":"); ok {
				segs[i] = "{" + name + "}"
			}
			if name, ok := strings.CutPrefix(seg, "*"); ok {
				segs[i] = "{" + name + "}"
			}
		}
		path = r.Method + " " + strings.Join(segs, "/")
		switch {
		case path == "POST /tasks/{id}":
			for _, verb := range slices.Sorted(maps.Keys(taskVerbs)) {
				out = append(out, path+":"+verb)
			}
		case path == "POST /conversations/{id}":
			for _, verb := range slices.Sorted(maps.Keys(conversationVerbs)) {
				out = append(out, path+":"+verb)
			}
		default:
			out = append(out, path)
		}
	}
	return out
}
