//go:build linux

package security_test

import (
	"net/http"
	"strings"
	"testing"

	"innerd/test/modelstub"
	"innerd/test/server"
)

// lately is what POST /init says of an agent, and how its request to the model
// shows that it was used.
type lately struct {
	provider string
	path     string // of the request
	header   string // that the key is in
}

var latelies = map[string]lately{
	"claude-code": {"", "/v1/messages", "X-Api-Key"}, // it knows no providers
	"codex":       {"azure", "/v1/responses", "Api-Key"},
	"copilot":     {"anthropic", "/v1/messages", "X-Api-Key"},
}

// What a late configuration says of keys, addresses, models and providers is
// what agents use, also where the environment says something else.
func TestLateCredentialsAreUsed(t *testing.T) {
	for name, environment := range map[string]bool{"alone": false, "over the environment's": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stub := modelstub.New()
			t.Cleanup(stub.Close)
			s := server.New(t, innerd)
			s.Env = append(s.Env, "INNERD_INIT_KEY="+server.HostKey)
			credentials, late, other := obj{}, map[string]*modelstub.Scenario{}, map[string]*modelstub.Scenario{}
			for _, a := range reals {
				sc, o, prefix := stub.Scenario(), stub.Scenario(), strings.TrimSuffix(a.variable, "PATH")
				late[a.name], other[a.name] = sc, o
				s.Env = append(s.Env, a.variable+"="+a.path(t).Path)
				if environment {
					s.Env = append(s.Env, prefix+"API_KEY="+o.Key(), prefix+"BASE_URL="+a.base(o), prefix+"MODEL=of-the-environment", prefix+"PROVIDER=openai")
				}
				base := a.base(sc)
				if latelies[a.name].provider == "anthropic" {
					base = sc.BaseURL()
				}
				credentials[a.name] = obj{"api_key": sc.Key(), "base_url": base, "model": a.model, "provider": latelies[a.name].provider}
			}
			s.StartUntil("waiting for POST /init")
			if status, answer := s.Call(http.MethodPost, "/init", obj{"keys": []string{"late:dummy-late-key"}, "credentials": credentials}); status != http.StatusOK {
				t.Fatalf("POST /init: %d %s", status, answer)
			}
			if !s.Says(`"innerd is ready"`) {
				t.Fatalf("the server is not ready:\n%s", s.Log())
			}
			for _, a := range reals {
				p := s.Post(t, obj{"messages": []any{obj{"role": "user", "content": "Do it."}}, "metadata": obj{"backend": a.name}}).Completed()
				used(t, &a, late[a.name])
				if n := other[a.name].Count() + len(other[a.name].Side()); n > 0 {
					t.Errorf("%s: the address of the environment was asked %d times\n%s", a.name, n, p)
				}
			}
		})
	}
}

// used looks that an agent's one request to its model is as it was told late.
func used(t *testing.T, a *real, sc *modelstub.Scenario) {
	t.Helper()
	rs, want := sc.Requests(), latelies[a.name]
	if len(rs) != 1 {
		t.Fatalf("%s: the late address was asked %d times", a.name, len(rs))
	}
	r := rs[0]
	if key := r.Header.Get(want.header); key != sc.Key() {
		t.Errorf("%s: the key in %s is %q, want %q", a.name, want.header, key, sc.Key())
	}
	if path, _, _ := strings.Cut(r.Path, "?"); path != want.path || r.Model != a.model {
		t.Errorf("%s: %s was asked for %s, want %s and %s", a.name, path, r.Model, want.path, a.model)
	}
}
