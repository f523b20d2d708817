//go:build linux

package parity_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/security/traps"
	"innerd/test/server"
)

var safetyRows = []row{
	{"hostile-repository-served", hostile},
	{"canary-key", canary},
	{"no-outside-traffic", noTraffic},
}

// hostile: what a repository says of hooks, programs, addresses and keys, to
// whichever agent, is not done.
func hostile(w *world) {
	evil := modelstub.New()
	w.Cleanup(evil.Close)
	lure := evil.Scenario()
	dir, marks := traps.Folder(w, lure.BaseURL())
	k := w.talk(obj{"cwd": dir})
	k.run("ask-marker-1", nil, shell("echo native", "native"), say("say-marker-1"))
	p := k.run("ask-marker-2", tools("look"), say("say-marker-2"))
	if left := traps.Sprung(w, marks); len(left) > 0 {
		w.Errorf("the repository had run: %v", left)
	}
	if n := lure.Count() + len(lure.Side()); n > 0 {
		w.Errorf("the repository's address was asked %d times", n)
	}
	if heard := k.heard(); strings.Contains(heard, traps.Secret) {
		w.Error("a link out of the repository was read into the prompt")
	}
	if k.sc != nil && k.sc.Count() != 3 {
		w.Errorf("the model was asked %d times\n%s", k.sc.Count(), p)
	}
}

// canary: the key is nowhere but in the headers of the requests to the model,
// whether it is the server's or the request's.
func canary(w *world) {
	began := time.Now().Add(-time.Second)
	w.s = w.a.server(w.T)
	stub := modelstub.New()
	w.Cleanup(stub.Close)
	keys := []string{"sk-canary-of-the-server-2f7c9d", "sk-canary-of-the-request-81be44"}
	var scenarios []*modelstub.Scenario
	for _, key := range keys {
		sc, err := stub.Script(fmt.Appendf(nil, `{"key":%q}`, key))
		if err != nil {
			w.Fatal(err)
		}
		scenarios = append(scenarios, sc)
	}
	w.s.Env = append(w.s.Env, "INNERD_"+w.a.vendor+"_API_KEY="+keys[0], "INNERD_"+w.a.vendor+"_BASE_URL="+w.a.base(scenarios[0]))
	w.s.Start()
	for i, sc := range scenarios {
		k := w.talk(nil)
		k.sc = sc
		sc.Func(k.model.next)
		delete(k.meta, "credentials")
		if i == 1 {
			k.meta["credentials"] = obj{"api_key": keys[1], "base_url": w.a.base(sc)}
		}
		gate := modelstub.NewGate()
		w.Cleanup(gate.Release)
		p := k.post("ask-marker", nil, shell(`env; tr '\0' '\n' </proc/$PPID/environ; tr '\0' ' ' </proc/$PPID/cmdline`, ""), say("Now look."), hold(gate), say(" Done."))
		server.Until[events.MessageDelta](p, 1)
		w.inProcesses(keys[i])
		gate.Release()
		p.Completed()
		k.heardBack(p)
		k.run("ask-marker-2", nil, say("Bye."))
		if strings.Contains(strings.Join(p.Lines(), "\n"), keys[i]) {
			w.Errorf("%s is in the run's events", keys[i])
		}
		inHeader := 0
		for _, r := range append(sc.Requests(), sc.Side()...) {
			if bytes.Contains(r.Body, []byte(keys[i])) || strings.Contains(r.Path, keys[i]) {
				w.Errorf("%s is in a request's body or address", keys[i])
			}
			inHeader += strings.Count(fmt.Sprint(r.Header), keys[i])
		}
		if inHeader != 3 {
			w.Errorf("%s is %d times in the headers of 3 requests", keys[i], inHeader)
		}
		w.inFiles(w.s.Home, keys[i], time.Time{})
	}
	w.s.Stop()
	for _, key := range keys {
		w.inFiles(w.s.Home, key, time.Time{})
		w.inFiles("/tmp", key, began)
		if strings.Contains(w.s.Log(), key) {
			w.Errorf("%s is in the server's log", key)
		}
	}
}

// inProcesses fails the row if a process of the server has s in its
// environment or in its command line.
func (w *world) inProcesses(s string) {
	w.Helper()
	agents := w.s.Marked()
	if len(agents) == 0 {
		w.Error("no agent runs")
	}
	for _, pid := range append(agents, w.s.Pid()) {
		for _, file := range []string{"environ", "cmdline"} {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil && pid == w.s.Pid() {
				w.Error(err)
			}
			if bytes.Contains(raw, []byte(s)) {
				w.Errorf("%s is in the %s of %s", s, file, server.Describe([]int{pid}))
			}
		}
	}
}

// inFiles fails the row if a file below root, changed since then, has s in it
// or in its name. In /tmp only files of a moderate size are looked at.
func (w *world) inFiles(root, s string, since time.Time) {
	w.Helper()
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return nil // it may be gone
		}
		if d.IsDir() && root == "/tmp" && !strings.Contains(d.Name(), "copilot") && !strings.Contains(d.Name(), "codex") && !strings.Contains(d.Name(), "claude") {
			return filepath.SkipDir // other tests' and builds'
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(since) || !since.IsZero() && info.Size() > 1<<20 {
			return nil
		}
		raw, _ := os.ReadFile(path)
		if bytes.Contains(raw, []byte(s)) || strings.Contains(path, s) {
			w.Errorf("%s is in %s", s, path)
		}
		return nil
	})
}
