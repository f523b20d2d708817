package codex

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"innerd/backends"
)

const (
	authFile       = "auth.json"
	defaultBaseURL = "https://api.openai.com/v1"
	providerAzure  = "azure"
)

// login is how a conversation reaches its model.
type login struct{ backends.Access }

func (b *Backend) login(c *backends.Credential) login {
	return login{backends.AccessVars{
		Prefix: "INNERD_CODEX", Keys: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, BaseURLs: []string{"OPENAI_BASE_URL"},
		Login: b.vendorLogin,
	}.Resolve(b.o.Getenv, c)}
}

// vendorLogin is the file that `codex login` leaves.
func (b *Backend) vendorLogin() string {
	dirs := []string{b.o.Getenv("CODEX_HOME")}
	if home := b.o.Getenv("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".codex"))
	}
	dirs = append(dirs, b.codexHome())
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		p := filepath.Join(dir, authFile)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return p
		}
	}
	return ""
}

// providerConfig is the provider as a thread's config has it. The key stands in it
// alone: it goes over stdin, and codex writes it nowhere.
func (l *login) providerConfig(retries int) map[string]any {
	p := map[string]any{
		"name": "innerd", "wire_api": "responses", "supports_websockets": false,
		"request_max_retries": 0, "stream_max_retries": retries, "stream_idle_timeout_ms": 300_000,
	}
	base := l.BaseURL
	if u, err := url.Parse(base); err == nil && u.RawQuery != "" { // ?api-version=…
		query := map[string]string{}
		for k, v := range u.Query() {
			query[k] = v[0]
		}
		u.RawQuery = ""
		base, p["query_params"] = u.String(), query
	}
	switch {
	case l.Login != "":
		p["requires_openai_auth"] = true
	case l.Provider == providerAzure:
		p["http_headers"] = map[string]string{"api-key": l.Key}
	default:
		p["experimental_bearer_token"] = l.Key
		base = orElse(base, defaultBaseURL)
	}
	if base != "" {
		p["base_url"] = base
	}
	return p
}

// provide copies the vendor's login to where codex will look for it, unless a
// newer one, which codex has refreshed, is there.
func (b *Backend) provide(l login) error {
	target := filepath.Join(b.codexHome(), authFile)
	if l.Login == "" || target == l.Login {
		return nil
	}
	from, err := os.Stat(l.Login)
	if err != nil {
		return err
	}
	to, err := os.Stat(target)
	if err == nil && !to.ModTime().Before(from.ModTime()) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := os.ReadFile(l.Login)
	if err != nil {
		return err
	}
	return b.o.Children.WriteFile(target, data)
}

// Login implements backends.Loginer: the vendor's own, into codex's folder here.
func (b *Backend) Login() (backends.LoginCommand, error) {
	path, err := b.binary()
	if err != nil {
		return backends.LoginCommand{}, err
	}
	if err := b.o.Children.MkdirAll(b.codexHome()); err != nil {
		return backends.LoginCommand{}, err
	}
	return backends.LoginCommand{
		Path: path, Args: []string{"login", "--device-auth"},
		Env: b.o.Children.Environ(map[string]string{"CODEX_HOME": b.codexHome()}),
	}, nil
}
