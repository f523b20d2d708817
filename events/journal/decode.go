package journal

import (
	"bytes"
	"encoding/json"
	"runtime"
	"sync"
)

// decodeAtOnce is how long a table is of which a goroutine decodes a part.
const decodeAtOnce = 64 << 10

// decoded is a line of runs.jsonl. Of one that can't be read, record is zero.
type decoded struct {
	line   []byte
	record record
}

// decodeLines decodes whole lines, in their order, on all processors: of a
// start with many runs it is the longest part.
func decodeLines(data []byte) []decoded {
	n := min(runtime.GOMAXPROCS(0), 1+len(data)/decodeAtOnce)
	parts := make([][]decoded, n)
	var wg sync.WaitGroup
	for i := range n {
		end := len(data)
		if i < n-1 {
			end = min(end, len(data)/(n-i))
			end += bytes.IndexByte(data[end:], '\n') + 1
		}
		part := data[:end]
		data = data[end:]
		wg.Go(func() { parts[i] = decodePart(part) }) // ends with its part
	}
	wg.Wait()
	all := parts[0]
	for _, p := range parts[1:] {
		all = append(all, p...)
	}
	return all
}

func decodePart(data []byte) []decoded {
	out := make([]decoded, 0, bytes.Count(data, newline))
	for line := range bytes.SplitSeq(data, newline) {
		if len(line) == 0 {
			continue
		}
		d := decoded{line: line}
		if json.Unmarshal(line, &d.record) != nil {
			d.record = record{}
		}
		out = append(out, d)
	}
	return out
}
