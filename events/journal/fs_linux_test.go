package journal_test

import (
	"testing"

	"innerd/events/journal"
)

// TestFoldersThatCannotBeSynced: some file systems sync no folders, as /proc
// does not. A state directory there is used, and nothing is wrong each second.
func TestFoldersThatCannotBeSynced(t *testing.T) {
	if err := journal.OS().SyncDir("/proc/self"); err != nil {
		t.Error(err)
	}
	if err := journal.OS().SyncDir("/proc/self/none"); err == nil {
		t.Error("a folder that is not there was synced")
	}
}
