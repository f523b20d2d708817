//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzSettings: any text of any setting is refused or becomes a value that the
// setting can have; a size or a time is more than nothing.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"", "0", "-1", "1", "0.1", "64MiB", "1e400", "0x10", "NaN", "Inf", "15m", "1e-12", "9223372036854775807", "true", "127.0.0.1:0", "[::]:80", "a,b", "claude_code", "\x00", "1 GiB", "b"} {
		for i := range serveSettings() {
			f.Add(uint(i), s)
		}
	}
	table := serveSettings()
	f.Fuzz(func(t *testing.T, i uint, text string) {
		s := table[i%uint(len(table))]
		norm, err := normalize(s.kind, text)
		if err != nil {
			return
		}
		if again, err := normalize(s.kind, norm); err != nil || again != norm {
			t.Fatalf("--%s %q became %q, then %q, %v", s.flag, text, norm, again, err)
		}
		r := &resolved{text: map[string]string{s.flag: norm}}
		switch s.kind {
		case kindBytes:
			if r.bytes(s.flag) <= 0 {
				t.Fatalf("--%s %q is %d bytes", s.flag, text, r.bytes(s.flag))
			}
		case kindDuration:
			if r.dur(s.flag) <= 0 {
				t.Fatalf("--%s %q is %v", s.flag, text, r.dur(s.flag))
			}
		case kindInt:
			if r.int(s.flag) < 0 {
				t.Fatalf("--%s %q is %d", s.flag, text, r.int(s.flag))
			}
		}
	})
}

// FuzzLate: any body of POST /init is refused or makes a server that somebody
// can call, and nobody without a key.
func FuzzLate(f *testing.F) {
	for _, s := range []string{
		"", "{}", "null", `{"keys":["a"]}`, `{"keys":["a:"]}`, `{"keys":[" , "]}`, `{"keys":["host:s3cret"],"env":{"A=":"1"},"credentials":{"claude-code":{"api_key":"k","base_url":"http://x"}},"workspace":"/tmp","now":"2026-01-31T12:00:00Z"}`,
		`{"keys":["a"],"credentials":{"simulate":{}}}`, `{"keys":["a"]}{}`, `{"keys":["a"],"now":7}`, `{"keys":["a"],"odd":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseLate(raw)
		if err != nil {
			return
		}
		s := &server{cfg: &serverConfig{access: &access{}, set: &resolved{text: map[string]string{}}}, app: testApp()}
		if err := s.configure(c); err != nil {
			t.Fatal(err)
		}
		if len(s.cfg.access.keys) == 0 || s.cfg.access.open {
			t.Fatalf("%q: nobody, or everybody, may call", raw)
		}
		if slices.Contains(c.secrets(), "") && len(c.Keys) == 0 {
			t.Fatalf("%q has an empty secret", raw)
		}
		if bytes.Contains(raw, []byte(`\u0000`)) && c.Workspace != "" {
			if _, err := os.Stat(c.Workspace); err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
		}
	})
}

// FuzzServices: any file of services is refused or gives programs that have
// names and commands.
func FuzzServices(f *testing.F) {
	for _, s := range []string{"", "{}", `{"services":[{"name":"a","command":["x"],"restart":"always"}]}`, `{"services":[{"name":"a","command":[]}]}`, `{"services":[{"name":"a","command":["x"]},{"name":"a","command":["y"]}]}`, `{"services":null,"odd":1}`, `{"services":[{"name":"../a","command":["x"],"user":"0:0","env":{"A":"b"}}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "services.json")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := testApp().readServices(t.Context(), path, nil)
		if err != nil {
			return
		}
		for _, s := range list {
			if !serviceName.MatchString(s.Name) || len(s.Program.Args) == 0 {
				t.Fatalf("%q: %+v", raw, s)
			}
		}
	})
}
