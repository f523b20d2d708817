package proc

import "os"

// descendants of a process that lives.
func descendants(id ID) []ID {
	all, _, err := processes()
	if err != nil || all[id.PID].start != id.Start {
		return nil
	}
	k := newKin(all)
	k.add(all[id.PID])
	k.grow()
	ids := make([]ID, 0, len(k.hit))
	for pid := range k.hit {
		if pid != id.PID {
			ids = append(ids, ID{PID: pid, Start: all[pid].start})
		}
	}
	return ids
}

// kin gathers processes that belong together. A child begins with a session of
// its own, and a process can leave its session but never join another's: so
// whoever shares a session with one of them descends from the child too.
type kin struct {
	all      map[int]stat
	hit      map[int]bool // the living ones
	sessions map[int]bool
	spare    map[int]bool // sessions that say nothing: our own, and one to be left alone
	self     int
}

func newKin(all map[int]stat) *kin {
	self := os.Getpid()
	return &kin{
		all: all, hit: map[int]bool{}, sessions: map[int]bool{}, self: self,
		spare: map[int]bool{all[self].session: true},
	}
}

func (k *kin) add(s stat) {
	if s.dead || s.pid == k.self {
		return
	}
	k.hit[s.pid] = true
	if !k.spare[s.session] {
		k.sessions[s.session] = true
	}
}

// grow adds children and members of sessions until there are no more.
func (k *kin) grow() {
	for before := -1; len(k.hit) > before; {
		before = len(k.hit)
		for pid, s := range k.all {
			if !k.hit[pid] && (k.hit[s.ppid] || k.sessions[s.session]) {
				k.add(s)
			}
		}
	}
}
