package claudecode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"innerd/backends"
)

// login is how a conversation reaches its model.
type login struct{ backends.Access }

const (
	credentialsFile = ".credentials.json"

	varBearer = "ANTHROPIC_AUTH_TOKEN" // claude takes it from its environment alone
	varOAuth  = "CLAUDE_CODE_OAUTH_TOKEN"
)

// login gathers credentials.
func (b *Backend) login(c *backends.Credential) login {
	return login{backends.AccessVars{
		Prefix: "INNERD_CLAUDE_CODE", Keys: []string{"ANTHROPIC_API_KEY", varBearer, varOAuth},
		BaseURLs: []string{"ANTHROPIC_BASE_URL"}, Models: []string{"ANTHROPIC_MODEL"}, Login: b.vendorLogin,
	}.Resolve(b.o.Getenv, c)}
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

// kind is the word of Status.Login: a token of the vendor's own login is one.
func (l *login) kind() string {
	if l.KeyFrom == varOAuth {
		return "login"
	}
	return l.Kind()
}

// provide copies the vendor's login to where claude will look for it, unless
// a newer one, which claude has refreshed, is there.
func (l *login) provide(children *backends.Children, configDir string) error {
	if l.Login == "" {
		return nil
	}
	target := filepath.Join(configDir, credentialsFile)
	if target == l.Login {
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
	return children.WriteFile(target, data)
}

// environ adds what the login puts into claude's environment: no key, unless
// the vendor has no other way for it.
func (l *login) environ(env map[string]string) (secrets [][]byte) {
	if l.BaseURL != "" {
		env["ANTHROPIC_BASE_URL"] = l.BaseURL
	}
	switch {
	case l.Key == "":
		return nil
	case l.KeyFrom == varBearer:
		env[varBearer] = l.Key
		return nil
	case l.KeyFrom == varOAuth:
		env["CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR"] = "3"
	default:
		env["CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"] = "3"
	}
	return [][]byte{[]byte(l.Key)}
}
