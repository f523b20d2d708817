package a2a_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/a2a"
	"innerd/test/a2a/rig"
	"innerd/test/agents"
)

// clients is where the official JavaScript clients are. A test fails where they
// are not installed: a skipped one would look like a passed one.
func clients(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("js/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	root, err := agents.Dir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(root, "a2a-clients", hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(filepath.Join(dir, ".whole")); err != nil {
		t.Fatalf("%v\n\nThis test runs the official A2A clients. Install them with:\n\n\tmake a2a-clients\n", err)
	}
	return filepath.Join(dir, "node_modules")
}

// drive runs a driver and makes each of its checks a test. least is how many
// there must be: a driver that stops early has not passed.
func drive(t *testing.T, script string, least int, options map[string]any) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(clients(t), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"check.mjs", script} {
		raw, err := os.ReadFile(filepath.Join("js", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	opts, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, script), string(opts))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	checks := 0
	for sc := bufio.NewScanner(strings.NewReader(string(out))); sc.Scan(); {
		var line struct {
			Transport, Name, Why string
			OK                   bool
		}
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			t.Errorf("%s: %v", sc.Text(), err)
			continue
		}
		checks++
		if !line.OK {
			t.Errorf("%s: %s: %s", line.Transport, line.Name, line.Why)
		}
	}
	if err != nil || checks < least {
		t.Errorf("%s: %d checks, want %d at least: %v\n%s", script, checks, least, err, stderr.String())
	}
}

func TestJavaScriptClient(t *testing.T) {
	s := start(t, rig.Options{GRPC: "127.0.0.1:0", Delay: 300 * time.Millisecond})
	drive(t, "drive.mjs", 101, map[string]any{"url": s.URL, "transports": []string{"JSONRPC", "HTTP+JSON", "GRPC"}, "open": true})
}

// With keys, and a card that is signed.
func TestJavaScriptClientWithKeysAndSignature(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := a2a.NewSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), "")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, rig.Options{GRPC: "127.0.0.1:0", Delay: 300 * time.Millisecond, Signer: signer, Keys: []adapter.Key{adapter.NewKey("js", "dummy-js-key")}})
	drive(t, "drive.mjs", 36, map[string]any{
		"url": s.URL, "transports": []string{"GRPC"}, "key": "dummy-js-key",
		"publicKey": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})),
	})
}

func TestJavaScriptClientOf03(t *testing.T) {
	s := start(t, rig.Options{Delay: 300 * time.Millisecond, BothRoot: true})
	drive(t, "drive-v03.mjs", 25, map[string]any{"url": s.URL + "/v0.3/", "rootUrl": s.URL})
}
