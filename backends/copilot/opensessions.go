package copilot

import "sync"

// openSessions counts the conversations that have a session, or had it and are
// not closed. Safe for concurrent use.
type openSessions struct {
	mu   sync.Mutex
	open map[string]*openSession
}

// openSession is a session that is had, or whose files are being removed.
type openSession struct {
	had      int
	removing chan struct{} // closed when its files are away; nil: nobody removes them
}

// add notes that one more conversation has the session. While its files are
// being removed it waits: who has it, has it whole.
func (o *openSessions) add(session string) {
	o.mu.Lock()
	s := o.atLocked(session)
	s.had++
	removing := s.removing
	o.mu.Unlock()
	if removing != nil {
		<-removing // its owner is another Close, which the disk bounds
	}
}

func (o *openSessions) atLocked(session string) *openSession {
	if o.open == nil {
		o.open = map[string]*openSession{}
	}
	s := o.open[session]
	if s == nil {
		s = &openSession{}
		o.open[session] = s
	}
	return s
}

// remove runs f when no other conversation has the session.
func (o *openSessions) remove(session string, f func() error) error {
	o.mu.Lock()
	s := o.atLocked(session)
	if s.had--; s.had > 0 {
		o.mu.Unlock()
		return nil
	}
	s.removing = make(chan struct{})
	o.mu.Unlock()
	return o.removed(session, s, f)
}

// unlessOpen runs f unless a conversation has the session; none gets it meanwhile.
func (o *openSessions) unlessOpen(session string, f func() error) error {
	o.mu.Lock()
	s := o.atLocked(session)
	if s.had > 0 || s.removing != nil {
		o.mu.Unlock()
		return nil
	}
	s.removing = make(chan struct{})
	o.mu.Unlock()
	return o.removed(session, s, f)
}

// removed runs f, without the lock: a slow disk keeps nobody from another
// session. Who wants this one is let in when it is over.
func (o *openSessions) removed(session string, s *openSession, f func() error) error {
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		close(s.removing)
		s.removing = nil
		if s.had == 0 {
			delete(o.open, session)
		}
	}()
	return f()
}
