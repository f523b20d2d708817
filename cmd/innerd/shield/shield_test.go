package shield_test

import (
	"testing"

	"innerd/cmd/innerd/shield"
)

func TestSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"ANTHROPIC_API_KEY": true, "GH_TOKEN": true, "INNERD_API_KEYS": true, "INNERD_CODEX_API_KEY": true,
		"INNERD_API_KEY_FILE": false, "INNERD_STATE_DIR": false, "HOME": false, "MY_API_KEY": false,
	} {
		if shield.Secret(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestGetenvFallsBack(t *testing.T) {
	t.Setenv("SHIELD_TEST", "x")
	if shield.Getenv("SHIELD_TEST") != "x" || shield.Err() != nil {
		t.Fatal(shield.Getenv("SHIELD_TEST"), shield.Err())
	}
}
