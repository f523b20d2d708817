package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"innerd/events"
)

// keptBytes is how much of a cut text stays in the event.
const keptBytes = 64 << 10

// memoryBlob is a blob of a run in memory only. It goes with its event.
type memoryBlob struct {
	sha  string
	data []byte
	id   int64
}

// cutValue is a value that was cut out of an event.
type cutValue struct {
	Field  string `json:"field"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// cut takes the values that are too long out of an event that is encoded as
// body, puts them into blobs, and gives the shorter body. A text leaves its
// beginning behind. An event that has none, and one whose blob can't be
// written, stays as it is.
func (l *Log) cut(body []byte, d events.Data) []byte {
	var env struct {
		Data map[string]json.RawMessage `json:"data"`
	}
	if json.Unmarshal(body, &env) != nil {
		return body
	}
	var cuts []cutValue
	for field, raw := range env.Data {
		if int64(len(raw)) <= l.s.opt.BlobBytes {
			continue
		}
		value, kept := []byte(raw), json.RawMessage(nil)
		var text string
		if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
			value = []byte(text)
			kept, _ = json.Marshal(firstBytes(text, int(min(keptBytes, l.s.opt.BlobBytes))))
		}
		sum := sha256.Sum256(value)
		c := cutValue{Field: field, Bytes: len(value), SHA256: hex.EncodeToString(sum[:])}
		if err := l.putBlob(c.SHA256, value); err != nil {
			l.s.log.Warn("journal: blob not written; the event stays whole", l.meta.LogAttr(), "err", err)
			return body
		}
		cuts = append(cuts, c)
		delete(env.Data, field)
		if kept != nil {
			env.Data[field] = kept
		}
	}
	if len(cuts) == 0 {
		return body
	}
	return encodeCut(body, d, env.Data, cuts)
}

func encodeCut(body []byte, d events.Data, data map[string]json.RawMessage, cuts []cutValue) []byte {
	slices.SortFunc(cuts, func(a, b cutValue) int { return cmp.Compare(b.Bytes, a.Bytes) })
	set := func(field string, v any) { data[field], _ = json.Marshal(v) }
	set("truncated", true)
	set("bytes", cuts[0].Bytes)
	set("sha256", cuts[0].SHA256)
	if len(cuts) > 1 {
		set("cut", cuts)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return body
	}
	short, err := events.AppendLine(nil, 0, 0, events.Unknown{Type: d.EventType(), Raw: raw})
	if err != nil {
		return body
	}
	return short
}

func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func (l *Log) putBlob(sha string, value []byte) error {
	if l.dir == "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.blobs = append(l.blobs, memoryBlob{sha: sha, data: value, id: l.next})
		l.mem += int64(len(value))
		l.s.pool.used.Add(int64(len(value)))
		return nil
	}
	dir := filepath.Join(l.dir, "blobs")
	if err := l.s.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return replaceFile(l.s.fs, filepath.Join(dir, sha), value, l.s.opt.Fsync != FsyncNone)
}

// dropBlobsLocked forgets the blobs of events before oldest.
func (l *Log) dropBlobsLocked(oldest int64) {
	for len(l.blobs) > 0 && l.blobs[0].id < oldest {
		n := int64(len(l.blobs[0].data))
		l.mem -= n
		l.s.pool.used.Add(-n)
		l.blobs = l.blobs[1:]
	}
}

// Blob opens a value that was cut out of an event, and gives its length.
// ErrNotFound.
func (l *Log) Blob(sha string) (io.ReadCloser, int64, error) {
	if len(sha) != 2*sha256.Size || strings.Trim(sha, "0123456789abcdef") != "" {
		return nil, 0, blobNotFound(sha)
	}
	if l.dir == "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, b := range l.blobs {
			if b.sha == sha {
				return io.NopCloser(bytes.NewReader(b.data)), int64(len(b.data)), nil
			}
		}
		return nil, 0, blobNotFound(sha)
	}
	f, err := l.s.fs.OpenFile(filepath.Join(l.dir, "blobs", sha), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, blobNotFound(sha)
	}
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return blobReader{io.NewSectionReader(f, 0, st.Size()), f}, st.Size(), nil
}

type blobReader struct {
	*io.SectionReader
	io.Closer
}

func blobNotFound(sha string) error {
	return fmt.Errorf("journal: blob %.64s: %w", sha, ErrNotFound)
}
