package claudecode

import "innerd/backends"

// Login implements backends.Loginer: claude's own login, which shows an
// address to open and takes the code that is found there. What it leaves is in
// the folder that conversations use, and newer than any other login.
func (b *Backend) Login() (backends.LoginCommand, error) {
	path, err := b.binary()
	if err != nil {
		return backends.LoginCommand{}, err
	}
	if err := b.o.Children.MkdirAll(b.configDir()); err != nil {
		return backends.LoginCommand{}, err
	}
	env := map[string]string{"CLAUDE_CONFIG_DIR": b.configDir(), "DISABLE_AUTOUPDATER": "1"}
	for _, name := range []string{"BROWSER", "COLORTERM"} { // of the terminal that it runs on
		if v := b.o.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return backends.LoginCommand{Path: path, Args: []string{"auth", "login"}, Env: b.o.Children.Environ(env)}, nil
}
