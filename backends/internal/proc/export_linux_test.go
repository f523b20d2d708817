package proc

import "context"

// AgentOf is agentOf of what runs now; between is called when that was listed.
func AgentOf(child int, between func()) (map[int]bool, error) {
	all, _, err := processes()
	if err != nil {
		return nil, err
	}
	between()
	return agentOf(all, child)
}

// Sweep is a sweep whose looks find what look gives; no process has these numbers.
func Sweep(ctx context.Context, look func() (found []int, settled bool, err error)) error {
	return untilNone(ctx, func() ([]stat, bool, error) {
		pids, settled, err := look()
		var all []stat
		for _, pid := range pids {
			all = append(all, stat{pid: pid})
		}
		return all, settled, err
	})
}
