package copilot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"innerd/backends"
)

// Words for Credential.Provider and INNERD_COPILOT_PROVIDER.
const (
	providerOpenAI    = "openai"           // Chat Completions
	providerResponses = "openai-responses" // the Responses API
	providerAnthropic = "anthropic"        // the Messages API
	providerAzure     = "azure"            // Azure OpenAI, Chat Completions
	providerGitHub    = "github"           // the key is a token of an account with Copilot
)

// login is how a conversation reaches its model: by a provider of one's own
// (key, address), by a GitHub token, or by the CLI's own login.
type login struct {
	provider string
	key      string // of the provider, or the GitHub token
	bearer   bool   // the key is a bearer token
	baseURL  string
	model    string
	file     string // the CLI's own login, "" if there is none
	kind     string // for Status.Login
	source   string // for Status.Source
}

const bearerVar = "COPILOT_PROVIDER_BEARER_TOKEN"

// gitHubVars hold tokens of an account with Copilot. They never go to a
// provider's address.
var gitHubVars = []string{"GITHUB_TOKEN", "GH_TOKEN"}

// login gathers credentials in the order that all backends have. An address
// without a key is a provider that needs none, if it is the server's own.
func (b *Backend) login(c *backends.Credential) login {
	get := b.o.Getenv
	a := backends.AccessVars{
		Prefix: "INNERD_COPILOT", Keys: append([]string{"COPILOT_PROVIDER_API_KEY", bearerVar}, gitHubVars...),
		BaseURLs: []string{"COPILOT_PROVIDER_BASE_URL"}, Models: []string{"COPILOT_MODEL"}, Login: b.vendorLogin,
	}.Resolve(get, c)
	l := login{provider: a.Provider, key: a.Key, bearer: a.KeyFrom == bearerVar, baseURL: a.BaseURL, model: a.Model, kind: a.Kind(), source: a.Source}
	own := c != nil && (c.Key != "" || c.BaseURL != "")
	if l.provider == "" && !own {
		l.provider = vendorProvider(get)
	}
	token := slices.Contains(gitHubVars, a.KeyFrom)
	switch {
	case l.provider == providerGitHub:
		l.baseURL = "" // tokens go to GitHub alone
	case l.baseURL == "" && l.provider == "" && (token || a.Login != "" || a.Key == ""):
		l.provider = providerGitHub
	case token || a.Login != "" || a.Key == "" && !own && l.baseURL != "":
		l.key, l.kind, l.source = "", "key", "an address whose provider needs no key"
	}
	if l.provider == providerGitHub {
		l.file = a.Login
		return l
	}
	l.provider = orElse(l.provider, providerOpenAI)
	l.baseURL = orElse(l.baseURL, defaultURL(l.provider))
	return l
}

// vendorProvider is the provider in the CLI's own variables.
func vendorProvider(get func(string) string) string {
	p := get("COPILOT_PROVIDER_TYPE")
	if p == providerOpenAI && get("COPILOT_PROVIDER_WIRE_API") == "responses" {
		return providerResponses
	}
	return p
}

func defaultURL(provider string) string {
	switch provider {
	case providerAnthropic:
		return "https://api.anthropic.com"
	case providerAzure, providerGitHub:
		return ""
	}
	return "https://api.openai.com/v1"
}

func (l *login) github() bool { return l.provider == providerGitHub }

func (l *login) usable() bool { return l.kind != "none" }

// identity is what a process's conversations must have in common. It is a
// hash: it stands in maps and may come into a message.
func (l *login) identity() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{fmt.Sprint(l.github(), l.bearer), l.key, l.file}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// config is the provider as session.create and session.resume take it; nil for
// a GitHub login.
func (l *login) config() *providerConfig {
	if l.github() {
		return nil
	}
	c := &providerConfig{Type: l.provider, WireAPI: "completions", BaseURL: l.baseURL, APIKey: l.key}
	switch {
	case l.provider == providerResponses:
		c.Type, c.WireAPI = providerOpenAI, "responses"
	case l.provider == providerAnthropic:
		c.WireAPI = ""
	}
	if l.bearer {
		c.APIKey, c.BearerToken = "", l.key
	}
	return c
}

const configFile = "config.json"

// loginKeys are what the CLI keeps of a login in its config.json, where the
// system has no store for secrets.
var loginKeys = []string{"loggedInUsers", "lastLoggedInUser", "copilotTokens", "authTokens"}

// vendorLogin is the config file that `copilot login` leaves.
func (b *Backend) vendorLogin() string {
	dirs := []string{b.home(), b.o.Getenv("COPILOT_HOME")}
	if home := b.o.Getenv("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".copilot"))
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		p := filepath.Join(dir, configFile)
		if dir == b.home() {
			switch raw, err := b.o.Children.ReadFile(p, maxConfig); {
			case errors.Is(err, fs.ErrPermission):
				return p // the agents' own, which is another user's: it may hold one
			case err == nil && len(loginIn(raw)) > 0:
				return p
			}
			continue
		}
		if len(loginOf(p)) > 0 {
			return p
		}
	}
	return ""
}

const maxConfig = 1 << 20 // bytes of a config file

// loginOf is what the config file of whoever runs this server holds of a login.
func loginOf(path string) map[string]json.RawMessage {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return loginIn(raw)
}

func loginIn(raw []byte) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(withoutComments(raw), &all) != nil {
		return nil
	}
	found := map[string]json.RawMessage{}
	for _, k := range loginKeys {
		if v, ok := all[k]; ok && len(v) > 2 { // not {}, [], ""
			found[k] = v
		}
	}
	return found
}

// withoutComments leaves out the lines that the CLI heads its file with.
func withoutComments(raw []byte) []byte {
	var out []byte
	for line := range bytes.Lines(raw) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}

// provide copies the vendor's login, and nothing else of its settings, to
// where the CLI will look for it. One that is there is newer: it is looked for first.
func (b *Backend) provide(l *login) error {
	target := filepath.Join(b.home(), configFile)
	if l.file == "" || l.file == target {
		return nil
	}
	raw, err := json.MarshalIndent(loginOf(l.file), "", "  ")
	if err != nil {
		return err
	}
	return b.o.Children.WriteFile(target, raw)
}

// Login implements backends.Loginer. The token goes into a file below our
// folder: the system's own store may belong to another user.
func (b *Backend) Login() (backends.LoginCommand, error) {
	bin, err := b.binary()
	if err != nil {
		return backends.LoginCommand{}, fmt.Errorf("%w. %s", err, hintInstall)
	}
	if err := b.o.Children.MkdirAll(b.home()); err != nil {
		return backends.LoginCommand{}, err
	}
	env := b.environ(nil, bin)
	return backends.LoginCommand{Path: bin.path, Args: []string{"login"}, Env: b.o.Children.Environ(env)}, nil
}

// environ is what copilot's environment has beside what agents inherit. It
// wins over what a request adds, which may not change how copilot is driven.
func (b *Backend) environ(extra map[string]string, bin binary) map[string]string {
	env := map[string]string{}
	for k, v := range extra {
		if !strings.HasPrefix(k, "COPILOT_") {
			env[k] = v
		}
	}
	env["COPILOT_HOME"] = b.home()
	env["COPILOT_DISABLE_KEYTAR"] = "1"
	bin.environ(env)
	return env
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
