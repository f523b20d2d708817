//go:build linux

package parity_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"innerd/adapter/api"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/test/modelstub"
	"innerd/test/server"
	"innerd/test/table"
)

// TestBackends: what a server with all agents says of each is what is so, and
// what it says that each can is what the table says.
func TestBackends(t *testing.T) {
	t.Parallel()
	const root = "../.."
	pinned, err := table.Versions(root)
	if err != nil {
		t.Fatal(err)
	}
	pinned[simulate.Name] = "1"
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	all := agentsOf(t)
	s := server.New(t, innerd)
	for _, a := range all {
		s.Env = append(s.Env, a.env...)
		if a.base != nil {
			sc, of := stub.Scenario(), "INNERD_"+a.vendor
			s.Env = append(s.Env, of+"_API_KEY="+sc.Key(), of+"_BASE_URL="+a.base(sc), of+"_MODEL="+a.model)
		}
	}
	s.Start()
	for _, column := range table.Agents() {
		a := all[slices.IndexFunc(all, func(a *agent) bool { return a.name == column.Name })]
		found, err := table.Read(root, column)
		if err != nil {
			t.Fatal(err)
		}
		server.Eventually(t, "GET /backends knows the version of "+a.name, func() bool { return a.base == nil || listed(s, a.name).Version != "" })
		b := listed(s, a.name)
		if !b.Found || !b.Usable || b.Why+b.Hint+b.Warning != "" || b.Version != pinned[a.name] || b.Pinned != pinned[a.name] {
			t.Errorf("%+v; pinned is %s", b, pinned[a.name])
		}
		if want := "INNERD_" + a.vendor + "_API_KEY"; a.base != nil && (b.Login != "key" || b.Source != want) {
			t.Errorf("%s: login %q from %q, want a key from %q", a.name, b.Login, b.Source, want)
		}
		capable(t, b, found)
		models(t, &world{T: t, a: a, s: s}, b.Models)
	}
}

// listed is what GET /backends says of one.
func listed(s *server.Server, name string) api.Backend {
	var answer api.Backends
	s.Do(http.MethodGet, "/backends", nil, &answer)
	i := slices.IndexFunc(answer.Backends, func(b api.Backend) bool { return b.Name == name })
	if i < 0 {
		return api.Backend{Name: name}
	}
	return answer.Backends[i]
}

// capable: an agent has a capability where a case that needs it has passed.
func capable(t *testing.T, b api.Backend, found table.Found) {
	t.Helper()
	passed := map[string]bool{}
	for _, c := range backendtest.All() {
		for _, need := range c.Needs {
			passed[string(need)] = passed[string(need)] || strings.HasPrefix(found[c.Name], "ok")
		}
	}
	checked := 0
	for name, can := range b.Capabilities {
		if ok, known := passed[name]; known && ok != can {
			t.Errorf("%s: the capability %s is %v, the table says %v", b.Name, name, can, ok)
		} else if known {
			checked++
		}
	}
	if checked < 9 { // all but "shared"
		t.Errorf("%s: only %d capabilities are in the table: %v", b.Name, checked, b.Capabilities)
	}
}

// models: Claude Code and Codex name theirs once one of them has started,
// Copilot the one that it is to use, whenever.
func models(t *testing.T, w *world, before []string) {
	t.Helper()
	if w.a.base == nil {
		return
	}
	own := w.a.name != "copilot"
	if want := []string{w.a.model}; own && len(before) > 0 || !own && !slices.Equal(before, want) {
		t.Errorf("%s: the models before it has started: %q", w.a.name, before)
	}
	w.talk(nil).run("Hello.", nil, say("Hello."))
	if own {
		server.Eventually(t, w.a.name+" names its models", func() bool { return len(listed(w.s, w.a.name).Models) > 1 })
	} else if got := listed(w.s, w.a.name).Models; !slices.Equal(got, before) {
		t.Errorf("%s: the models when it has started: %q", w.a.name, got)
	}
}
