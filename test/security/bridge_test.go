//go:build linux

package security_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"innerd/events"
	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// overheard is a server whose codex has what it is told written to a file.
func overheard(t *testing.T) (s *server.Server, told string) {
	t.Helper()
	a := reals[1]
	dir := t.TempDir()
	told, wrapper := filepath.Join(dir, "stdin"), filepath.Join(dir, "codex")
	agents.WriteProgram(t, wrapper, fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *app-server*) tee -a %s | exec %s \"$@\";; *) exec %[2]s \"$@\";; esac\n", told, a.path(t).Path))
	s = server.New(t, innerd)
	s.Env = append(s.Env, a.variable+"="+wrapper)
	s.Args = append(s.Args, "--max-event", "1KiB")
	s.Start()
	return s, told
}

// blob is an ended run that has one, and its name.
func blob(t *testing.T, s *server.Server) (task, sha256 string) {
	t.Helper()
	p := s.Post(t, simulate("hello", obj{"detach": true}, obj{"tool": obj{"name": "shell", "input": obj{}, "output": strings.Repeat("long ", 1000)}})).Completed()
	sha := regexp.MustCompile(`"sha256":"([0-9a-f]{64})"`).FindStringSubmatch(strings.Join(p.Lines(), "\n"))
	if sha == nil {
		t.Fatal("there is no blob")
	}
	return p.TaskID(), sha[1]
}

// lookThenShell has the model call the host's tool, then one of its own, and
// then say something.
func lookThenShell() func(modelstub.Request) modelstub.Turn {
	var looked atomic.Bool
	next := shell("echo asked", "Done.")
	return func(r modelstub.Request) modelstub.Turn {
		if looked.CompareAndSwap(false, true) { // codex has its model search for it, and takes a call unasked
			return modelstub.Say(modelstub.Tool("look", obj{}).Namespace("mcp__host"))
		}
		return next(r)
	}
}

// The token that an agent has for the host's tools opens nothing else: not the
// results of its own calls, not its own permission request.
func TestBridgeTokenOpensNothingElse(t *testing.T) {
	t.Parallel()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	s, told := overheard(t)
	ended, sha := blob(t, s)
	sc := stub.Scenario()
	sc.Func(lookThenShell())
	p := s.Post(t, reals[1].turn(sc, obj{
		"permission_mode": "ask", "agent_options": obj{"tools": "mcp"}, "detach": true,
		"native_tool_schemas": []any{obj{"name": "look", "parameters": obj{"type": "object"}}},
	}))
	toolCall := server.Until[events.ToolRequest](p, 1).ToolCallID
	stdin, err := os.ReadFile(told)
	token := regexp.MustCompile(`Bearer ([A-Za-z0-9_-]{20,})`).FindSubmatch(stdin)
	if err != nil || token == nil {
		t.Fatalf("the agent was given no token: %v", err)
	}
	conv, ok := s.Conversation("talk")
	if !ok {
		t.Fatal("there is no conversation")
	}
	ids := map[string]string{
		"id": p.TaskID(), "tool_call_id": toolCall, "request_id": "none", "sha256": sha, "name": "codex", "tenant": "codex", "configId": "1", "profile": "heap", "conversation": conv.ID,
	}
	refused := func(phase string) {
		t.Helper()
		for _, ids["id"] = range []string{p.TaskID(), ended} {
			opensNothing(t, s, phase, string(token[1]), ids)
		}
	}

	refused("a call is open")
	if n := len(server.Of[events.ToolResolved](p)); n > 0 {
		t.Errorf("the call was resolved: %s", p)
	}
	s.Result(toolCall, obj{"result": "seen by the host"})
	ids["request_id"] = server.Until[events.PermissionRequest](p, 1).RequestID
	refused("a request is open")
	if n := len(server.Of[events.PermissionResolved](p)); n > 0 {
		t.Errorf("the request was resolved: %s", p)
	}
	s.Do(http.MethodPost, "/tasks/"+p.TaskID()+"/requests/"+ids["request_id"], obj{"option": "deny"}, nil)
	p.Completed()
	for _, r := range server.Of[events.ToolResolved](p) {
		if r.Outcome != events.OutcomeOK {
			t.Errorf("the host's answer: %+v", r)
		}
	}
	if status, _ := s.Call(http.MethodGet, "/tasks/"+ended+"/blobs/"+sha, nil); status != http.StatusOK {
		t.Errorf("with the key the blob is %d", status)
	}
}

// opensNothing makes every call of the description that needs a key with a
// token that is none.
func opensNothing(t *testing.T, s *server.Server, phase, token string, ids map[string]string) {
	t.Helper()
	for _, o := range operations(t) {
		if o.open {
			continue
		}
		path := fill(t, o.path, ids)
		got := call(t, s, token, o.method, path, obj{"option": "allow_once", "text": "yes", "result": "yes"})
		// A server that has its keys knows no such call as init.
		if got.status != http.StatusUnauthorized && (o.id != "init" || got.status < 400) {
			t.Errorf("%s: %s %s: %d %.100s", phase, o.method, path, got.status, got.body)
		}
	}
}

// fill puts values in the place of all parameters of a path. One that is
// missing fails the test: what has no path is called by nobody.
func fill(t *testing.T, path string, ids map[string]string) string {
	t.Helper()
	return parameter.ReplaceAllStringFunc(path, func(p string) string {
		name := strings.Trim(p, "{}")
		if strings.HasPrefix(path, "/conversations/") {
			name = "conversation"
		}
		if ids[name] == "" {
			t.Fatalf("%s: there is no value for %s", path, name)
		}
		return ids[name]
	})
}
