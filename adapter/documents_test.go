package adapter_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"innerd/adapter"
	"innerd/adapter/openapi"
	"innerd/adapter/published"
)

// TestEveryRouteIsDescribed compares the router's routes with the table of
// package openapi, either way. What other rooms serve is compared there.
func TestEveryRouteIsDescribed(t *testing.T) {
	there := map[string]bool{}
	for _, r := range serve(t, func(o *adapter.Options) { o.Pprof = true }).adapter.Routes() {
		there[sameNames(r)] = true
	}
	described := map[string]bool{}
	for _, o := range openapi.Operations() {
		if o.Tag == "agents" || strings.HasPrefix(o.Tag, "a2a") || o.Path == "/init" {
			continue
		}
		r := sameNames(o.Method + " " + o.Path)
		described[r] = true
		if !there[r] {
			t.Errorf("the table has %s %s, and the router does not", o.Method, o.Path)
		}
	}
	for r := range there {
		if get, head := strings.CutPrefix(r, "HEAD "); head && described["GET "+get] {
			continue
		}
		if !described[r] {
			t.Errorf("the router has %s, and the table in adapter/openapi does not", r)
		}
	}
}

// sameNames gives all parameters of a route one name.
func sameNames(route string) string {
	segs := strings.Split(route, "{")
	for i, s := range segs[1:] {
		_, rest, _ := strings.Cut(s, "}")
		segs[i+1] = "}" + rest
	}
	return strings.Join(segs, "{")
}

// TestEveryErrorIsDescribed looks for each error that there is in the faults
// of the operations, with its status and its error_type, and the other way.
func TestEveryErrorIsDescribed(t *testing.T) {
	described := map[string]bool{}
	note := func(f openapi.Fault) {
		for _, words := range f.Errors {
			described[fmt.Sprint(f.Status, " ", f.Type, ": ", words)] = true
		}
	}
	for _, o := range openapi.Operations() {
		if o.Tag == "agents" {
			continue
		}
		for _, f := range o.Faults {
			note(f)
		}
	}
	for _, f := range openapi.Anywhere() {
		note(f)
	}
	there := map[string]bool{}
	for _, m := range adapter.Meanings() {
		name := fmt.Sprint(m.Status, " ", m.ErrorType, ": ", m.Words)
		there[name] = true
		if !described[name] {
			t.Errorf("no operation in adapter/openapi has the fault %q", name)
		}
	}
	for name := range described {
		if !there[name] {
			t.Errorf("adapter/openapi has the fault %q, and the server does not", name)
		}
	}
}

func TestDocuments(t *testing.T) {
	s := serve(t, func(o *adapter.Options) {
		o.Open, o.Keys = false, []adapter.Key{adapter.NewKey("me", "secret")}
	})
	for path, doc := range map[string]published.Document{"/openapi.json": published.OpenAPI, "/schemas/events.json": published.Events} {
		s.key = ""
		s.fails(t, "GET", path, "", http.StatusUnauthorized, "unauthorized", "no key")
		s.key = "secret"
		res := s.do(t, "GET", path, "")
		_, body := s.call(t, "GET", path, "")
		if res.StatusCode != 200 || body != doc.Body || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %.80s", path, res.StatusCode, res.Header, body)
		}
		for given, want := range map[string]int{res.Header.Get("ETag"): 304, `"other", W/` + res.Header.Get("ETag"): 304, "*": 304, `"other"`: 200} {
			if status, _ := s.call(t, "GET", path, "", "If-None-Match", given); status != want {
				t.Errorf("%s with If-None-Match %s: %d", path, given, status)
			}
		}
		if res := s.do(t, "HEAD", path, ""); res.StatusCode != 200 || res.ContentLength != int64(len(doc.Body)) {
			t.Errorf("HEAD %s: %d, %d bytes", path, res.StatusCode, res.ContentLength)
		}
	}
}

func TestOperationsHaveNamesOfTheirOwn(t *testing.T) {
	var seen []string
	for _, o := range openapi.Operations() {
		if o.ID == "" || o.Title == "" || slices.Contains(seen, o.ID) || len(o.Answers) == 0 || len(o.Faults) == 0 {
			t.Errorf("%s %s: the id %q is empty or there twice, or it has no title, no answers or no faults", o.Method, o.Path, o.ID)
		}
		seen = append(seen, o.ID)
	}
}
