package adapter

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// DefaultOwner owns what is done on an open server, and with the server's own
// token.
const DefaultOwner = "default"

// Key lets its holder act as Owner. It does not hold the secret.
type Key struct {
	Owner string
	hash  [sha256.Size]byte
}

// NewKey makes the key of an owner. An empty owner is made from the secret.
func NewKey(owner, secret string) Key {
	k := Key{Owner: owner, hash: sha256.Sum256([]byte(secret))}
	if owner == "" {
		k.Owner = "k-" + hex.EncodeToString(k.hash[:6])
	}
	return k
}

// String keeps what is known of the secret out of logs.
func (k Key) String() string { return "[key of " + k.Owner + "]" }

var ownerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeys reads a comma list of secrets and name:secret.
func ParseKeys(list string) []Key { return parseKeys(strings.Split(list, ","), true) }

// ParseSecrets reads a comma list of secrets, in which a colon means nothing.
func ParseSecrets(list string) []Key { return parseKeys(strings.Split(list, ","), false) }

// CheckKey says what is wrong with an entry of a list of keys, if anything is:
// a name whose secret is empty, as a template with an empty variable makes it,
// would be a key that anybody can guess; and no header can carry a secret with
// spaces or control characters in it.
func CheckKey(entry string) error {
	entry = strings.TrimSpace(entry)
	name, secret, named := strings.Cut(entry, ":")
	switch {
	case named && strings.TrimSpace(secret) == "" && ownerName.MatchString(name):
		return fmt.Errorf("the secret of the key %q is empty", name)
	case strings.ContainsFunc(entry, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("a key has a space or a control character in it")
	}
	return nil
}

// ParseKeyFile reads what a file of keys holds: secrets and name:secret, one a
// line. It gives the lines, too.
func ParseKeyFile(data []byte) ([]Key, []string, error) {
	lines := strings.Split(string(data), "\n")
	for _, line := range lines {
		if err := CheckKey(line); err != nil {
			return nil, nil, err
		}
	}
	return parseKeys(lines, true), lines, nil
}

// parseKeys trims entries and skips empty ones. An entry whose part before the
// colon can be no name is a secret with a colon in it.
func parseKeys(entries []string, named bool) []Key {
	var keys []Key
	for _, e := range entries {
		e = strings.TrimSpace(e)
		if e == "" {
			continue
		}
		name, secret, ok := strings.Cut(e, ":")
		if named && ok && secret != "" && ownerName.MatchString(name) {
			keys = append(keys, NewKey(name, secret))
			continue
		}
		keys = append(keys, NewKey("", e))
	}
	return keys
}

// Secret is the secret of an entry of a list of keys.
func Secret(entry string) string {
	entry = strings.TrimSpace(entry)
	if name, secret, ok := strings.Cut(entry, ":"); ok && secret != "" && ownerName.MatchString(name) {
		return secret
	}
	return entry
}

type callerKey struct{}

// caller is what is known of a request when its key is.
type caller struct {
	owner string
	load  *load // of its body, or own
	own   load
}

// Owner is whose key the request was made with.
func Owner(ctx context.Context) string {
	if c, _ := ctx.Value(callerKey{}).(*caller); c != nil {
		return c.owner
	}
	return ""
}

// authenticate puts the owner into the request's context, with the load that
// its answer may be. Who serves the request puts it down.
func (s *Server) authenticate(r *http.Request) (*http.Request, error) {
	owner := DefaultOwner
	if !s.opt.Open {
		header := ""
		if lines := r.Header["Authorization"]; len(lines) == 1 { // of two, others might take the other
			header = lines[0]
		}
		found, ok := s.ownerOf(header)
		if !ok && !s.opened(r.URL.Path) {
			return r, errUnauthorized
		}
		owner = found
	}
	c := &caller{owner: owner, load: loadOf(r.Context()), own: load{scales: s.scales}}
	if c.load == nil {
		c.load = &c.own
	}
	c.load.shared = r.ProtoMajor > 1
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c)), nil
}

// ownerOf compares with every key, so that the time it takes tells nothing.
func (s *Server) ownerOf(header string) (owner string, ok bool) {
	scheme, secret, _ := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return "", false
	}
	hash := sha256.Sum256([]byte(secret))
	for _, k := range s.keys {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 && !ok {
			owner, ok = k.Owner, true
		}
	}
	return owner, ok
}

// openPath reports whether a path needs no key.
func openPath(path string) bool { return probe(path) || strings.HasPrefix(path, "/.well-known/") }
