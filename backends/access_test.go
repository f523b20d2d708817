package backends_test

import (
	"testing"

	"innerd/backends"
)

// TestAccess: the same order for every agent, and no key of the server's goes
// to an address that a request names.
func TestAccess(t *testing.T) {
	login := ""
	vars := backends.AccessVars{
		Prefix: "INNERD_X", Keys: []string{"V_KEY", "V_TOKEN"}, BaseURLs: []string{"V_URL"}, Models: []string{"V_MODEL"},
		Login: func() string { return login },
	}
	all := map[string]string{
		"INNERD_X_API_KEY": "ours", "INNERD_X_BASE_URL": "our-url", "INNERD_X_MODEL": "our-model", "INNERD_X_PROVIDER": "azure",
		"V_KEY": "v-key", "V_TOKEN": "v-token", "V_URL": "v-url", "V_MODEL": "v-model",
	}
	without := func(names ...string) map[string]string {
		out := map[string]string{}
		for k, v := range all {
			out[k] = v
		}
		for _, n := range names {
			delete(out, n)
		}
		return out
	}
	for name, c := range map[string]struct {
		env   map[string]string
		own   *backends.Credential
		login string
		want  backends.Access
		kind  string
	}{
		"the request's own": {
			env: all, own: &backends.Credential{Key: "k", BaseURL: "u", Model: "m", Provider: "p"},
			want: backends.Access{Credential: backends.Credential{Key: "k", BaseURL: "u", Model: "m", Provider: "p"}, Source: "the request's own key"}, kind: "key",
		},
		"a request's key for the server's address": {
			env: all, own: &backends.Credential{Key: "k"},
			want: backends.Access{Credential: backends.Credential{Key: "k", BaseURL: "our-url", Model: "our-model", Provider: "azure"}, Source: "the request's own key"}, kind: "key",
		},
		"a request's address gets no key of the server's, nor its login": {
			env: all, own: &backends.Credential{BaseURL: "evil"}, login: "/l",
			want: backends.Access{Credential: backends.Credential{BaseURL: "evil", Model: "our-model", Provider: "azure"}, Source: "none: the request names an address and brings no key for it"}, kind: "none",
		},
		"a request's model alone": {
			env: all, own: &backends.Credential{Model: "m"},
			want: backends.Access{Credential: backends.Credential{Key: "ours", BaseURL: "our-url", Model: "m", Provider: "azure"}, KeyFrom: "INNERD_X_API_KEY", Source: "INNERD_X_API_KEY"}, kind: "key",
		},
		"ours before the vendor's": {
			env:  all,
			want: backends.Access{Credential: backends.Credential{Key: "ours", BaseURL: "our-url", Model: "our-model", Provider: "azure"}, KeyFrom: "INNERD_X_API_KEY", Source: "INNERD_X_API_KEY"}, kind: "key",
		},
		"the vendor's, in order": {
			env:  without("INNERD_X_API_KEY", "INNERD_X_BASE_URL", "INNERD_X_MODEL", "INNERD_X_PROVIDER", "V_KEY"),
			want: backends.Access{Credential: backends.Credential{Key: "v-token", BaseURL: "v-url", Model: "v-model"}, KeyFrom: "V_TOKEN", Source: "V_TOKEN"}, kind: "key",
		},
		"the login last": {
			env: without("INNERD_X_API_KEY", "V_KEY", "V_TOKEN"), login: "/home/.x",
			want: backends.Access{Credential: backends.Credential{BaseURL: "our-url", Model: "our-model", Provider: "azure"}, Login: "/home/.x", Source: "the login in /home/.x"}, kind: "login",
		},
		"nothing": {want: backends.Access{}, kind: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			login = c.login
			got := vars.Resolve(func(n string) string { return c.env[n] }, c.own)
			if got != c.want || got.Kind() != c.kind || got.Usable() != (c.kind != "none") {
				t.Errorf("%#v, want %#v", got, c.want)
			}
		})
	}
}

func TestUnknownTypesAreCountedAndBounded(t *testing.T) {
	var u backends.UnknownTypes
	for range 3 {
		u.Add("new/thing")
	}
	for i := range 1000 {
		u.Add(string(rune('a'+i%26)) + string(rune('a'+i/26)))
	}
	got := u.Counts()
	var sum int64
	for _, n := range got {
		sum += n
	}
	if got["new/thing"] != 3 || sum != 1003 || len(got) > 257 {
		t.Errorf("%d kinds, %d in all, %v", len(got), sum, got["new/thing"])
	}
}
