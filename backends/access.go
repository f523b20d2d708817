package backends

// Access is how a conversation reaches its model, and where that was found.
type Access struct {
	Credential
	// KeyFrom is the variable that had Key; "" where the request brought it, or
	// there is none.
	KeyFrom string
	// Login is the vendor's own login, a file or a folder; only without a Key.
	Login string
	// Source says in words, without any secret, what is used.
	Source string
}

// Usable reports whether there is anything to reach a model with.
func (a *Access) Usable() bool { return a.Key != "" || a.Login != "" }

// Kind is the word of Status.Login.
func (a *Access) Kind() string {
	switch {
	case a.Key != "":
		return "key"
	case a.Login != "":
		return "login"
	}
	return "none"
}

// AccessVars says where a backend's credentials may be. The order is the same
// for every agent: the request's own, then INNERD_<BACKEND>_*, then the
// vendor's variables, then the vendor's own login.
type AccessVars struct {
	Prefix   string        // "INNERD_CODEX": of _API_KEY, _BASE_URL, _MODEL, _PROVIDER
	Keys     []string      // the vendor's variables, in its order
	BaseURLs []string      // the vendor's
	Models   []string      // the vendor's
	Login    func() string // finds the vendor's own login, "" without; nil: it has none
}

// Resolve finds what a conversation uses. c is what its request brought, nil
// for nothing. A key that is the server's is never sent to an address that a
// request names.
func (v AccessVars) Resolve(getenv func(string) string, c *Credential) Access {
	a := Access{Credential: Credential{
		BaseURL:  firstSet(getenv, v.Prefix+"_BASE_URL", v.BaseURLs),
		Model:    firstSet(getenv, v.Prefix+"_MODEL", v.Models),
		Provider: getenv(v.Prefix + "_PROVIDER"),
	}}
	if c != nil {
		own := func(to *string, from string) {
			if from != "" {
				*to = from
			}
		}
		own(&a.BaseURL, c.BaseURL)
		own(&a.Model, c.Model)
		own(&a.Provider, c.Provider)
		if c.Key != "" {
			a.Key, a.Source = c.Key, "the request's own key"
			return a
		}
		if c.BaseURL != "" {
			a.Source = "none: the request names an address and brings no key for it"
			return a
		}
	}
	for _, name := range append([]string{v.Prefix + "_API_KEY"}, v.Keys...) {
		if key := getenv(name); key != "" {
			a.Key, a.KeyFrom, a.Source = key, name, name
			return a
		}
	}
	if v.Login != nil {
		if a.Login = v.Login(); a.Login != "" {
			a.Source = "the login in " + a.Login
		}
	}
	return a
}

func firstSet(getenv func(string) string, first string, rest []string) string {
	for _, name := range append([]string{first}, rest...) {
		if s := getenv(name); s != "" {
			return s
		}
	}
	return ""
}
