//go:build linux

package security_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"innerd/events"
	"innerd/test/server"
)

var parameter = regexp.MustCompile(`\{[a-zA-Z0-9_]+\}`)

// Nothing but what says so answers without a key, or with a wrong one: not the
// routes of the description, not those of operators, not those that are not.
func TestEverythingIsBehindTheKey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all := operations(t)
	for _, path := range []string{"/metrics", "/debug/streams", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars", "/nothing", "/", "/a2a/x/y/z", "/v0.3/v1/x", "/healthz", "/health/../tasks", "/.well-known/../tasks", "/.well-known/%2e%2e/metrics", "//tasks"} {
		all = append(all, operation{method: http.MethodGet, path: path})
	}
	for _, o := range all {
		path := parameter.ReplaceAllString(o.path, "abcdefgh")
		for _, key := range []string{"", "wrong", "host:" + s.Key(), "host"} {
			a := call(t, s, key, o.method, path, bodyFor(o.id))
			switch {
			case o.id == "init": // a server that has its keys knows no such call
				if a.status == http.StatusOK {
					t.Errorf("%s %s: %d", o.method, path, a.status)
				}
			case o.open:
				if a.status == http.StatusUnauthorized {
					t.Errorf("%s %s needs a key", o.method, path)
				}
			case strings.Contains(strings.ReplaceAll(o.path, "%2e", "."), ".."):
				if a.status != http.StatusNotFound {
					t.Errorf("%s %s: %d %.100s", o.method, path, a.status, a.body)
				}
			case a.status != http.StatusUnauthorized:
				t.Errorf("%s %s with the key %q: %d %.100s", o.method, path, key, a.status, a.body)
			}
		}
	}
}

func bodyFor(id string) any {
	if strings.HasPrefix(id, "get") || strings.HasPrefix(id, "list") {
		return nil
	}
	return obj{}
}

const marker = "marker-of-the-first-host"

// What one key's holder has made does not exist for another's, on any route,
// and nothing of it can be changed.
func TestKeysAreApart(t *testing.T) {
	t.Parallel()
	s := serve(t, "--max-event", "1KiB")
	long := marker + strings.Repeat(" long", 1000)
	ended := s.Post(t, simulate(marker, obj{"detach": true}, obj{"tool": obj{"name": marker, "input": obj{}, "output": long}}, obj{"text": marker})).Completed()
	sha := regexp.MustCompile(`"sha256":"([0-9a-f]{64})"`).FindStringSubmatch(strings.Join(s.Follow(t, ended.TaskID(), "0").Whole().Lines(), "\n"))
	if sha == nil {
		t.Fatal("there is no blob")
	}
	open := simulate(marker, obj{"detach": true, "interactive": true, "permission_mode": "ask"},
		obj{"permission": obj{"tool": "shell", "input": obj{"command": marker}}}, obj{"call": obj{"tool": "look", "arguments": obj{}}}, obj{"ask": obj{"message": marker}}, obj{"text": "over"})
	open["context_id"] = marker
	open["metadata"].(obj)["native_tool_schemas"] = []any{obj{"name": "look", "parameters": obj{"type": "object"}}}
	p := s.Post(t, open)
	permission := server.Until[events.PermissionRequest](p, 1).RequestID
	conv, ok := s.Conversation(marker)
	if !ok {
		t.Fatal("there is no conversation")
	}
	strangers := func(phase, call, request string) {
		for _, task := range []string{p.TaskID(), ended.TaskID()} {
			tryAll(t, s, phase, map[string]string{
				"id": task, "request_id": request, "tool_call_id": call, "sha256": sha[1], "name": marker, "tenant": "simulate", "configId": "1", "profile": "heap", "conversation": conv.ID,
			})
		}
	}
	strangers("permission", "tc_none", permission)
	s.Do(http.MethodPost, "/tasks/"+p.TaskID()+"/requests/"+permission, obj{"option": "allow_once"}, nil)
	tool := server.Until[events.ToolRequest](p, 1).ToolCallID
	strangers("call", tool, permission)
	s.Result(tool, obj{"result": "seen"})
	question := server.Until[events.InputRequired](p, 1).RequestID
	strangers("question", tool, question)
	s.Do(http.MethodPost, "/tasks/"+p.TaskID()+":reply", obj{"text": "blue"}, nil)
	p.Completed()
	for _, r := range server.Of[events.PermissionResolved](p) {
		if r.Outcome != events.OutcomeAllowed || r.By != "host" {
			t.Errorf("%+v", r)
		}
	}
	if text := p.Text(); !strings.Contains(text, "seen") || !strings.Contains(text, "blue") || strings.Contains(text, "stranger") {
		t.Errorf("the run heard %q", text)
	}
	if status, _ := s.Call(http.MethodGet, "/tasks/"+ended.TaskID(), nil); status != http.StatusOK {
		t.Errorf("the ended run: %d", status)
	}
}

// tryAll makes every call of the description as another host, with the first
// host's ids.
func tryAll(t *testing.T, s *server.Server, phase string, ids map[string]string) {
	t.Helper()
	message := obj{"message": obj{"messageId": "m", "role": "ROLE_USER", "taskId": ids["id"], "parts": []any{obj{"text": "stranger"}}, "content": []any{obj{"text": "stranger"}}}}
	bodies := []struct {
		of   *regexp.Regexp
		body any
	}{
		{regexp.MustCompile(`\}:reply$|:steer$`), obj{"text": "stranger"}},
		{regexp.MustCompile(`/requests/`), obj{"option": "deny", "value": "stranger"}},
		{regexp.MustCompile(`/result$`), obj{"result": "stranger"}},
		{regexp.MustCompile(`^/message:`), obj{"messages": []any{}, "metadata": obj{"query": "stranger", "backend": "simulate", "task_id": ids["id"]}}},
		{regexp.MustCompile(`message:(send|stream)$`), message},
		{regexp.MustCompile(`pushNotificationConfigs$`), obj{"url": "https://example.com/"}},
		{regexp.MustCompile(`:(register|discover|route)$`), obj{"name": "n", "url": "http://127.0.0.1:1/", "prompt": "p"}},
	}
	for _, o := range operations(t) {
		if o.id == "init" {
			continue
		}
		path := fill(t, o.path, ids)
		var body any
		if o.method == http.MethodPost {
			body = obj{}
		}
		for _, b := range bodies {
			if o.method == http.MethodPost && b.of.MatchString(o.path) {
				body = b.body
				break
			}
		}
		a := call(t, s, otherKey, o.method, path, body)
		named := strings.Contains(o.path, "{id}") || strings.Contains(o.path, "{tool_call_id}") || strings.Contains(o.path, "message:")
		if strings.Contains(a.body, marker) {
			t.Errorf("%s: %s %s shows another host's: %d %.300s", phase, o.method, path, a.status, a.body)
		}
		if named && a.status < 300 && !strings.Contains(a.body, `"not_found"`) && !strings.Contains(a.body, `"error"`) {
			t.Errorf("%s: %s %s succeeds: %d %.300s", phase, o.method, path, a.status, a.body)
		}
	}
	for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask", "ListTaskPushNotificationConfigs", "CreateTaskPushNotificationConfig", "SendMessage", "SendStreamingMessage", "ListTasks"} {
		params := obj{"id": ids["id"], "taskId": ids["id"], "url": "https://example.com/"}
		if strings.HasPrefix(method, "Send") {
			params = message
		}
		a := call(t, s, otherKey, http.MethodPost, "/a2a", obj{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "A2A-Version", "1.0")
		if strings.Contains(a.body, marker) || method != "ListTasks" && !strings.Contains(a.body, `"error"`) {
			t.Errorf("%s: %s: %d %.300s", phase, method, a.status, a.body)
		}
	}
}

// Ids are names of files at some places: none of them leads out of its place.
func TestPathsDoNotEscape(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.Post(t, simulate("hello", obj{"detach": true}, obj{"text": "x"})).Completed().TaskID()
	for _, evil := range []string{
		"..%2f..%2ftoken", "%2e%2e%2f%2e%2e%2ftoken", "..", "%2e%2e", "..%2f" + id, "%00", id + "%00", ".", "..%5c..%5cVERSION", "%2fetc%2fpasswd", strings.Repeat("a", 5000), "runs.jsonl", "%c0%ae%c0%ae%c0%af",
	} {
		for _, path := range []string{"/tasks/" + evil, "/tasks/" + evil + "/events", "/tasks/" + id + "/blobs/" + evil, "/tasks/" + evil + "/blobs/" + evil, "/a2a/tasks/" + evil} {
			if a := call(t, s, s.Key(), http.MethodGet, path, nil, "A2A-Version", versionFor(path)); a.status < 400 || a.status >= 500 || strings.Contains(a.body, id+"\",") {
				t.Errorf("%s: %d %.100s", path, a.status, a.body)
			}
		}
		for _, path := range []string{"/conversations/" + evil + ":close", "/conversations/" + evil + ":compact", "/tasks/" + evil + ":cancel"} {
			if a := call(t, s, s.Key(), http.MethodPost, path, obj{}); a.status < 400 || a.status >= 500 {
				t.Errorf("%s: %d %.100s", path, a.status, a.body)
			}
		}
		if a := call(t, s, s.Key(), http.MethodDelete, "/tasks/"+evil, nil); a.status < 400 || a.status >= 500 {
			t.Errorf("DELETE %s: %d", evil, a.status)
		}
	}
	for _, evil := range []string{"../../../x", "..........", "a/b/c/d/e", "aaaaaaa\x00", "aaaaaaaa.", "ääääääää", "aaaaaaaa\n"} {
		if a := call(t, s, s.Key(), http.MethodPost, "/message:send", simulate("hello", obj{"task_id": evil}, obj{"text": "x"})); a.status != http.StatusBadRequest || !strings.Contains(a.body, "task_id") {
			t.Errorf("task_id %q: %d %.100s", evil, a.status, a.body)
		}
	}
	// A context may be named by anything, since it is never a name of a file.
	for _, odd := range []string{"../../../token", "/etc/passwd", "a\x00b", "C:\\x", strings.Repeat("../", 100)} {
		b := simulate("hello", nil, obj{"text": "x"})
		b["context_id"] = odd
		s.Post(t, b).Completed()
	}
	for _, cwd := range []string{"relative", "../..", "/nowhere/at/all", "/etc/passwd", "\x00"} {
		if a := call(t, s, s.Key(), http.MethodPost, "/message:send", simulate("hello", obj{"cwd": cwd}, obj{"text": "x"})); a.status != http.StatusBadRequest || !strings.Contains(a.body, "cwd") {
			t.Errorf("cwd %q: %d %.100s", cwd, a.status, a.body)
		}
	}
}

func versionFor(path string) string {
	if strings.HasPrefix(path, "/a2a") {
		return "1.0"
	}
	return "0.3.0"
}
