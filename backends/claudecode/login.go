package claudecode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"innerd/backends"
)

// login is how a conversation reaches its model.
type login struct {
	key     string // through a pipe
	oauth   string // through a pipe
	bearer  string // claude takes it from its environment alone
	baseURL string
	model   string
	file    string // the vendor's own credentials, "" if there are none
}

const credentialsFile = ".credentials.json"

// login gathers credentials: the run's, then ours, then the vendor's
// variables, then the vendor's login. The address goes with its key: a key is
// never sent to an address that came from somewhere else, but for a
// conversation's own key without one.
func (b *Backend) login(c *backends.Credential) login {
	get := b.o.Getenv
	l := login{baseURL: orElse(get("INNERD_CLAUDE_CODE_BASE_URL"), get("ANTHROPIC_BASE_URL"))}
	l.model = orElse(get("INNERD_CLAUDE_CODE_MODEL"), get("ANTHROPIC_MODEL"))
	if c != nil {
		l.baseURL = orElse(c.BaseURL, l.baseURL)
		l.model = orElse(c.Model, l.model)
		if c.Key != "" {
			l.key = c.Key
			return l
		}
	}
	switch {
	case get("INNERD_CLAUDE_CODE_API_KEY") != "":
		l.key = get("INNERD_CLAUDE_CODE_API_KEY")
	case get("ANTHROPIC_API_KEY") != "":
		l.key = get("ANTHROPIC_API_KEY")
	case get("ANTHROPIC_AUTH_TOKEN") != "":
		l.bearer = get("ANTHROPIC_AUTH_TOKEN")
	case get("CLAUDE_CODE_OAUTH_TOKEN") != "":
		l.oauth = get("CLAUDE_CODE_OAUTH_TOKEN")
	default:
		l.file = b.vendorLogin()
	}
	if c != nil && c.BaseURL != "" && c.Key == "" {
		// The server's key does not go to an address that a request names.
		l.key, l.bearer, l.oauth, l.file = "", "", "", ""
	}
	return l
}

// vendorLogin is the file that `claude` leaves after its own login.
func (b *Backend) vendorLogin() string {
	dirs := []string{b.o.Getenv("CLAUDE_CONFIG_DIR")}
	if home := b.o.Getenv("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".claude"))
	}
	dirs = append(dirs, b.configDir())
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		p := filepath.Join(dir, credentialsFile)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return p
		}
	}
	return ""
}

func (l *login) usable() bool { return l.key != "" || l.oauth != "" || l.bearer != "" || l.file != "" }

// kind is the word of Status.Login.
func (l *login) kind() string {
	switch {
	case l.key != "" || l.bearer != "":
		return "key"
	case l.oauth != "" || l.file != "":
		return "login"
	}
	return "none"
}

// provide copies the vendor's login to where claude will look for it, unless
// a newer one, which claude has refreshed, is there.
func (l *login) provide(children *backends.Children, configDir string) error {
	if l.file == "" {
		return nil
	}
	target := filepath.Join(configDir, credentialsFile)
	if target == l.file {
		return nil
	}
	from, err := os.Stat(l.file)
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
	data, err := os.ReadFile(l.file)
	if err != nil {
		return err
	}
	return children.WriteFile(target, data)
}

// environ adds what the login puts into claude's environment: no key, unless
// the vendor has no other way for it.
func (l *login) environ(env map[string]string) (secrets [][]byte) {
	if l.baseURL != "" {
		env["ANTHROPIC_BASE_URL"] = l.baseURL
	}
	switch {
	case l.key != "":
		env["CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"] = "3"
		return [][]byte{[]byte(l.key)}
	case l.oauth != "":
		env["CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR"] = "3"
		return [][]byte{[]byte(l.oauth)}
	case l.bearer != "":
		env["ANTHROPIC_AUTH_TOKEN"] = l.bearer
	}
	return nil
}
