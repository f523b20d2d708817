package a2a

import (
	"encoding/base64"

	"innerd/adapter/a2a/spec"
	"innerd/runs"
)

// pageBytes is how much a page of whole tasks may have, by the logs that they
// are made of, but for one task that is longer alone.
const pageBytes = 16 << 20

// page is the tasks of one answer to ListTasks.
type page struct {
	runs   []*runs.Run
	what   shows
	weight int64 // of the answer, at the most; 0: only what is short is wanted
}

// page takes the rows of the next page, and says in out where the one behind it
// begins. None is read.
func (q *query) page(rows []row, out *spec.ListTasksResponse) page {
	p := page{what: shows{q.req.IncludeArtifacts, q.req.HistoryLength != nil && *q.req.HistoryLength > 0}}
	last := ""
	for _, r := range rows {
		if q.after != "" && r.key() >= q.after {
			continue
		}
		full := len(p.runs) == q.size
		run, err := q.m.Get(q.owner, r.info.ID)
		if err != nil && !full {
			continue // deleted meanwhile
		}
		var weight int64
		if !full && p.what != bare {
			weight = run.Weight()
		}
		if full || len(p.runs) > 0 && p.weight+weight > pageBytes {
			out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		p.runs, p.weight, last = append(p.runs, run), p.weight+weight, r.key()
	}
	return p
}
