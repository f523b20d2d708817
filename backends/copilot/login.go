package copilot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
}

// login gathers credentials: the run's, then ours, then the vendor's
// variables, then the vendor's login. The address goes with its key: a key is
// never sent to an address that came from somewhere else.
func (b *Backend) login(c *backends.Credential) login {
	get := b.o.Getenv
	l := b.serverLogin()
	if c == nil {
		return l
	}
	model := orElse(c.Model, l.model)
	if c.Key != "" || c.BaseURL != "" {
		own := login{
			provider: orElse(c.Provider, l.providerAt(c.BaseURL)), key: c.Key, baseURL: c.BaseURL,
		}
		if own.baseURL == "" && own.provider == l.provider {
			own.baseURL = l.baseURL // a conversation's own key without an address
		}
		if own.provider != providerGitHub {
			own.baseURL = orElse(own.baseURL, defaultURL(own.provider))
		}
		l = own
	}
	l.model = orElse(model, get("INNERD_COPILOT_MODEL"))
	return l
}

// providerAt is the provider of an address without a word for it.
func (l *login) providerAt(baseURL string) string {
	if baseURL == "" || l.baseURL != "" {
		return orElse(l.provider, providerOpenAI)
	}
	return providerOpenAI
}

func (b *Backend) serverLogin() login {
	get := b.o.Getenv
	model := orElse(get("INNERD_COPILOT_MODEL"), get("COPILOT_MODEL"))
	ours, provider := get("INNERD_COPILOT_API_KEY"), get("INNERD_COPILOT_PROVIDER")
	switch {
	case ours != "" && provider == providerGitHub:
		return login{provider: providerGitHub, key: ours, model: model}
	case ours != "" || get("INNERD_COPILOT_BASE_URL") != "":
		provider = orElse(provider, providerOpenAI)
		return login{provider: provider, key: ours, baseURL: orElse(get("INNERD_COPILOT_BASE_URL"), defaultURL(provider)), model: model}
	case get("COPILOT_PROVIDER_BASE_URL") != "":
		l := login{
			provider: orElse(get("COPILOT_PROVIDER_TYPE"), providerOpenAI), key: get("COPILOT_PROVIDER_API_KEY"),
			baseURL: get("COPILOT_PROVIDER_BASE_URL"), model: model,
		}
		if l.provider == providerOpenAI && get("COPILOT_PROVIDER_WIRE_API") == "responses" {
			l.provider = providerResponses
		}
		if token := get("COPILOT_PROVIDER_BEARER_TOKEN"); token != "" {
			l.key, l.bearer = token, true
		}
		return l
	}
	for _, name := range []string{"GITHUB_TOKEN", "GH_TOKEN"} {
		if token := get(name); token != "" {
			return login{provider: providerGitHub, key: token, model: model}
		}
	}
	return login{provider: providerGitHub, file: b.vendorLogin(), model: model}
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

func (l *login) usable() bool {
	if l.github() {
		return l.key != "" || l.file != ""
	}
	return l.baseURL != "" // a local provider may need no key
}

// kind is the word of Status.Login.
func (l *login) kind() string {
	switch {
	case !l.usable():
		return "none"
	case l.github():
		return "login"
	}
	return "key"
}

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
		if len(loginOf(p)) > 0 {
			return p
		}
	}
	return ""
}

// loginOf is what a config file holds of a login.
func loginOf(path string) map[string]json.RawMessage {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
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
func (l *login) provide(home string) error {
	target := filepath.Join(home, configFile)
	if l.file == "" || l.file == target {
		return nil
	}
	raw, err := json.MarshalIndent(loginOf(l.file), "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(home, configFile+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone after the rename
	if _, err := tmp.Write(raw); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), target)
}

// Login implements backends.Loginer. The token goes into a file below our
// folder: the system's own store may belong to another user.
func (b *Backend) Login() (backends.LoginCommand, error) {
	bin, err := b.binary()
	if err != nil {
		return backends.LoginCommand{}, fmt.Errorf("%w. %s", err, hintInstall)
	}
	if err := os.MkdirAll(b.home(), 0o700); err != nil {
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
