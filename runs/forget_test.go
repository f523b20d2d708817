package runs_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/runs"
)

// keeper is a backend that keeps files for its conversations.
type keeper struct {
	*played
	mu     sync.Mutex
	forgot []string
	known  map[string]bool // what ForgetOld is told of these
	old    chan time.Time
}

func (k *keeper) Forget(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgot = append(k.forgot, id)
	return nil
}

func (k *keeper) ForgetOld(before time.Time, known func(string) bool) error {
	k.mu.Lock()
	for id := range k.known {
		k.known[id] = known(id)
	}
	k.mu.Unlock()
	k.old <- before
	return nil
}

// TestFilesAreForgotten: what a backend keeps for a conversation goes when
// nobody can come back to it, and not before.
func TestFilesAreForgotten(t *testing.T) {
	k := &keeper{played: &played{name: "played", run: says("answer")}, old: make(chan time.Time, 2)}
	w := newWorld(t, func(w *world) { w.other = []backends.Backend{k} })
	<-k.old
	w.run(by("played"), inContext("kept"))
	w.run(by("played"), func(*runs.Spec) {}) // of no context
	kept := w.m.Conversations("me")[0].ID
	k.mu.Lock()
	own := k.opened[1].ID
	k.known = map[string]bool{kept: false, own: true}
	k.mu.Unlock()
	w.restart() // waits for what goes on aside
	if before := <-k.old; time.Since(before) < 29*24*time.Hour {
		t.Errorf("what was written before %v is old", before)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.forgot, []string{own}) {
		t.Errorf("%v was forgotten; %s can be come back to, %s not", k.forgot, kept, own)
	}
	if !k.known[kept] || k.known[own] {
		t.Errorf("known: %v", k.known)
	}
}

// TestFilesOfDamagedConversationsStay: a conversation whose file can't be read
// is still somebody's.
func TestFilesOfDamagedConversationsStay(t *testing.T) {
	k := &keeper{played: &played{name: "played", run: says("answer")}, old: make(chan time.Time, 2)}
	w := newWorld(t, func(w *world) { w.other = []backends.Backend{k} })
	<-k.old
	w.run(by("played"), inContext("damaged"))
	id := w.m.Conversations("me")[0].ID
	k.mu.Lock()
	k.known = map[string]bool{id: false, "never-was": true}
	k.mu.Unlock()
	w.stop()
	if err := os.WriteFile(filepath.Join(w.dir, "conversations", id, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	<-k.old
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known[id] || k.known["never-was"] {
		t.Errorf("known: %v", k.known)
	}
}
