package proc

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// inherited lists the variables that agents inherit; a trailing * is a prefix.
// Nothing else of the server's environment reaches them, keys least of all.
var inherited = []string{
	"HOME", "PATH", "LANG", "LC_*", "TERM", "TZ", "USER", "DISPLAY",
	"AGENT_BROWSER_*", "WORKSPACE_DIR", "SANDBOX_ID",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY",
	"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
	"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "AWS_CA_BUNDLE", "CODEX_CA_CERTIFICATE",
}

// Environ is the environment of an agent: what it may inherit, and extra,
// which wins, after what Options.Env says. Names that cannot be names are left out.
func (s *Supervisor) Environ(extra map[string]string) []string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if matches(inherited, name) || matches(s.inherit, name) {
			env[name] = value
		}
	}
	maps.Copy(env, s.env)
	maps.Copy(env, extra)
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name != "" && name != markName && !strings.ContainsAny(name, "=\x00") {
			out = append(out, name+"="+env[name])
		}
	}
	return out
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			return prefix != "" && strings.HasPrefix(name, prefix)
		}
		return p == name
	})
}

// withMark is env with this mark and no other.
func withMark(env []string, mark string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, markName+"=") {
			out = append(out, kv)
		}
	}
	return append(out, markName+"="+mark)
}
