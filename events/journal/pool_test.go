package journal

import "testing"

// TestPoolLetsGoOfWhatNobodyNeeds: what was needed in a flood is kept for the
// next one only as long as it comes at once.
func TestPoolLetsGoOfWhatNobodyNeeds(t *testing.T) {
	var p chunkPool
	free := func() (n int) {
		for k := range p.free {
			n += len(p.free[k])
		}
		return n
	}
	use := func(n, size int) {
		var all []*chunk
		for range n {
			all = append(all, p.get(size, 1))
		}
		for _, c := range all {
			c.release()
		}
	}
	use(4, maxChunk)
	use(6, 1)
	p.trim() // nobody had time to need them
	if n := free(); n != 10 {
		t.Fatalf("%d wait for use, not 10", n)
	}
	use(3, maxChunk)
	use(1, 1)
	p.trim()
	if n := free(); n != 4 {
		t.Errorf("%d wait for use; 3 large ones and a small one were needed", n)
	}
	if c := p.get(maxChunk, 7); len(c.buf)+len(c.ends)+len(c.class) > 0 || c.first != 7 {
		t.Errorf("%+v", c)
	}
	p.trim() // of the two that are left none was needed
	p.trim()
	if n := free(); n != 0 {
		t.Errorf("%d wait for use, and nobody came", n)
	}
}
