package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"

	"innerd/events"
)

// blockBytes is how much of a segment one entry of its index covers, but for
// longer lines.
const blockBytes = 64 << 10

// block is an entry of a segment's index: lines of consecutive ids.
type block struct {
	first int64  // id of the first line
	off   int64  // where it begins
	n     uint32 // bytes
	count uint32 // lines; of a bad block: ids that are lost in it
	crc   uint32 // crc32c of the bytes
	bad   bool   // these bytes were no lines when the index was rebuilt
}

func (b block) next() int64 { return b.first + int64(b.count) }
func (b block) end() int64  { return b.off + int64(b.n) }

// An entry on disk is little-endian: first, off, n, count with the highest bit
// for bad, crc, and the crc32c of these 28 bytes.
const (
	entryBytes = 32
	badBit     = 1 << 31
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b block) appendEntry(dst []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.first))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.off))
	dst = binary.LittleEndian.AppendUint32(dst, b.n)
	count := b.count
	if b.bad {
		count |= badBit
	}
	dst = binary.LittleEndian.AppendUint32(dst, count)
	dst = binary.LittleEndian.AppendUint32(dst, b.crc)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// parseIndex reads entries as far as they are whole, follow one another and
// lie within size bytes.
func parseIndex(data []byte, first, size int64) []block {
	var blocks []block
	off := int64(0)
	for ; len(data) >= entryBytes; data = data[entryBytes:] {
		e := data[:entryBytes]
		if crc32.Checksum(e[:28], castagnoli) != binary.LittleEndian.Uint32(e[28:]) {
			break
		}
		count := binary.LittleEndian.Uint32(e[20:])
		b := block{
			first: int64(binary.LittleEndian.Uint64(e)), off: int64(binary.LittleEndian.Uint64(e[8:])),
			n: binary.LittleEndian.Uint32(e[16:]), count: count &^ badBit,
			crc: binary.LittleEndian.Uint32(e[24:]), bad: count&badBit != 0,
		}
		if b.first != first || b.off != off || b.end() > size {
			break
		}
		first, off = b.next(), b.end()
		blocks = append(blocks, b)
	}
	return blocks
}

// indexer makes blocks of the lines that are written to a segment.
type indexer struct {
	closed []block // complete; only grows
	open   block   // the one that still takes lines; n may be 0
}

// add takes p, whole lines.
func (x *indexer) add(p []byte) {
	for len(p) > 0 {
		cut := len(p)
		if room := blockBytes - int(x.open.n); cut > room {
			cut = bytes.LastIndexByte(p[:room], '\n') + 1
			if cut == 0 && x.open.n == 0 { // a longer line is a block of its own
				cut = bytes.IndexByte(p, '\n') + 1
			}
		}
		q := p[:cut]
		p = p[cut:]
		x.open.crc = crc32.Update(x.open.crc, castagnoli, q)
		x.open.n += uint32(len(q))
		x.open.count += uint32(bytes.Count(q, newline))
		if len(p) > 0 || x.open.n >= blockBytes {
			x.close()
		}
	}
}

// addBad takes n bytes that are no lines, in the place of count ids.
func (x *indexer) addBad(n int, count int64) {
	x.close()
	x.open.n, x.open.count, x.open.bad = uint32(n), uint32(count), true
	x.close()
}

// close ends the open block.
func (x *indexer) close() {
	if x.open.n == 0 {
		return
	}
	x.closed = append(x.closed, x.open)
	x.open = block{first: x.open.next(), off: x.open.end()}
}

func (x *indexer) size() int64 { return x.open.end() }
func (x *indexer) next() int64 { return x.open.next() }

var newline = []byte{'\n'}

// lineID reads the id that a line begins with.
func lineID(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"id":`))
	if !ok {
		return 0, false
	}
	var id int64
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9' && i < 18:
			id = id*10 + int64(c-'0')
		case c == ',' && i > 0:
			return id, true
		default:
			return 0, false
		}
	}
	return 0, false
}

// validLine says whether line, without its line end, is an event under an id.
func validLine(line []byte) (int64, bool) {
	id, ok := lineID(line)
	if !ok || events.LineType(line) == nil {
		return 0, false
	}
	e, err := events.ParseLine(line)
	return id, err == nil && e.ID == id
}

// minLine is less than any line takes: so many ids at most can be lost in
// some bytes that can't be read.
const minLine = 24

// scan reads the lines of data, which begins where x ends, into x. Bytes that
// are no lines become bad blocks if a line follows them, else they are left
// out: the tail is torn. It returns how many bytes it took.
func (x *indexer) scan(data []byte) int {
	good, bad := 0, 0 // ends of what was taken, and of what is no line after it
	for bad < len(data) {
		n := bytes.IndexByte(data[bad:], '\n')
		if n < 0 {
			break
		}
		line := data[bad : bad+n]
		bad += n + 1
		id, ok := validLine(line)
		lost := id - x.next()
		skipped := bad - n - 1 - good
		if !ok || lost < 0 || lost > int64(skipped/minLine) {
			continue
		}
		if skipped > 0 {
			x.addBad(skipped, lost)
		}
		x.add(data[good+skipped : bad])
		good = bad
	}
	return good
}

// repair finds the one byte of data whose change explains why its checksum is
// not want, puts it right and returns its place. A checksum is linear: what
// the change did to it, shifted back over the bytes that follow the change, is
// the change itself.
func repair(data []byte, want uint32) (int, bool) {
	diff := crc32.Checksum(data, castagnoli) ^ want
	for i := len(data) - 1; i >= 0; i-- {
		// diff is now what the byte at i must have put into the checksum:
		// table[e] for a change e of that byte alone.
		if e := reverse[diff>>24]; castagnoli[e] == diff {
			data[i] ^= e
			return i, true
		}
		e := reverse[diff>>24]
		diff = (diff^castagnoli[e])<<8 | uint32(e)
	}
	return 0, false
}

// reverse gives the byte e whose castagnoli[e] has this highest byte.
var reverse = func() (r [256]byte) {
	for e, v := range castagnoli {
		r[v>>24] = byte(e)
	}
	return r
}()

func segmentName(first int64) string {
	s := strconv.FormatInt(first, 10)
	for len(s) < 12 {
		s = "0" + s
	}
	return s + ".jsonl"
}

func indexName(segment string) string {
	return segment[:len(segment)-len("jsonl")] + "idx"
}

func parseSegmentName(name string) (first int64, ok bool) {
	digits, ok := strings.CutSuffix(name, ".jsonl")
	if !ok || len(digits) < 12 {
		return 0, false
	}
	first, err := strconv.ParseInt(digits, 10, 64)
	return first, err == nil && first > 0
}
