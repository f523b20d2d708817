package copilot_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"innerd/backends/copilot"
)

var errDisk = errors.New("the disk")

// Who gets a session while its files are being removed waits for that; who gets
// another one does not.
func TestSessionsWaitForTheirOwnFilesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o copilot.OpenSessions
		o.Add("one")
		slow, ended := make(chan struct{}), make(chan error)
		go func() { // ends with slow
			ended <- o.Remove("one", func() error { <-slow; return errDisk })
		}()
		synctest.Wait()
		o.Add("other")
		if err := o.Remove("other", func() error { return nil }); err != nil {
			t.Error(err)
		}
		if err := o.UnlessOpen("one", func() error { t.Error("its files are removed twice at once"); return nil }); err != nil {
			t.Error(err)
		}
		got := make(chan struct{})
		go func() { o.Add("one"); close(got) }() // ends with slow
		synctest.Wait()
		select {
		case <-got:
			t.Error("a session is had while its files are being removed")
		default:
		}
		close(slow)
		if err := <-ended; !errors.Is(err, errDisk) {
			t.Errorf("the removal ended with %v", err)
		}
		<-got
		if err := o.UnlessOpen("one", func() error { t.Error("removed, though it is open"); return nil }); err != nil {
			t.Error(err)
		}
	})
}

// Files are removed with the last of those who have the session, and what nobody
// has is nowhere kept.
func TestSessionsAreCounted(t *testing.T) {
	var o copilot.OpenSessions
	removed := 0
	f := func() error { removed++; return nil }
	o.Add("one")
	o.Add("one")
	for want := range 2 {
		if err := o.Remove("one", f); err != nil || removed != want {
			t.Errorf("removed %d times, not %d; %v", removed, want, err)
		}
	}
	if err := o.UnlessOpen("two", f); err != nil || removed != 2 || o.Len() != 0 {
		t.Errorf("removed %d times, %d are kept; %v", removed, o.Len(), err)
	}
}
