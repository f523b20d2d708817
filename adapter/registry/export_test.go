package registry

import (
	"errors"
	"fmt"
	"net/http"
)

// Routes are the routes, each as "METHOD /path".
func Routes() (out []string) {
	for _, r := range routes {
		out = append(out, r.method+" "+r.path)
	}
	return out
}

// Meanings are the errors, each as "status error_type: words".
func Meanings() (out []string) {
	for _, c := range statuses {
		out = append(out, fmt.Sprint(c.status, " ", c.kind, ": ", c.err))
	}
	for name, err := range map[string]error{"*http.MaxBytesError": &http.MaxBytesError{}, "*": errors.New("any other")} {
		status, kind := statusOf(err)
		out = append(out, fmt.Sprint(status, " ", kind, ": ", name))
	}
	return out
}
