//go:build linux

package faults_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// keptApart fails the test where a file that is kept for a conversation, by the
// server or its agent, has a word of another, or the server's log has any. What
// an agent resumes with another's word in it, its model sees too.
func keptApart(t *testing.T, r *rig, all []*apart) {
	t.Helper()
	r.Stop() // what is written at the end is there then
	for _, w := range slices.Compact(slices.Sorted(slices.Values(wordForm.FindAllString(r.Log(), -1)))) {
		t.Errorf("the server's log has %s", w)
	}
	folders := map[string]map[string]bool{} // of conversations: each has its own word by its context
	for path, words := range wordsIn(t, filepath.Join(r.State, "conversations")) {
		dir := filepath.Dir(path)
		if folders[dir] == nil {
			folders[dir] = map[string]bool{}
		}
		maps.Copy(folders[dir], words)
	}
	aparts := map[string]map[string]bool{}
	for path, words := range wordsIn(t, r.Agents) {
		if !ofAllSessions(path) {
			aparts[path] = words
		}
	}
	kept, sessions := apartFrom(t, folders), apartFrom(t, aparts)
	for _, c := range all {
		if kept[c.word] != 1 || sessions[c.word] == 0 {
			t.Errorf("%s is in the folders of %d conversations and in %d files of agents", c.word, kept[c.word], sessions[c.word])
		}
	}
	t.Logf("words in %d folders of conversations, %d files of agents", len(folders), len(aparts))
}

// ofAllSessions says of an agent's file that it is of all of its sessions:
// Codex has an index, a history and a log of them in databases of its own.
func ofAllSessions(path string) bool {
	return filepath.Base(filepath.Dir(path)) == "codex" && strings.Contains(filepath.Base(path), ".sqlite")
}

// apartFrom fails the test where one thing has two words, and gives in how many
// each is.
func apartFrom(t testing.TB, things map[string]map[string]bool) map[string]int {
	t.Helper()
	n := map[string]int{}
	for name, words := range things {
		if len(words) > 1 {
			t.Errorf("%s has the words %v", name, slices.Sorted(maps.Keys(words)))
		}
		for w := range words {
			n[w]++
		}
	}
	return n
}

// wordsIn are the words in each file below a folder that has any.
func wordsIn(t testing.TB, dir string) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an agent's temporary file
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, w := range wordForm.FindAllString(string(raw), -1) {
			if out[path] == nil {
				out[path] = map[string]bool{}
			}
			out[path][w] = true
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out
}
