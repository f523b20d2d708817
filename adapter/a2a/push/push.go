// Package push delivers the events of tasks to webhooks: for each configuration
// in order and at least once, as slowly as its receiver likes and never slowing
// the task. There is no queue to lose: a configuration is a place in the task's
// log, and that place is on disk.
package push

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sort"
	"sync"
	"time"

	"innerd/adapter/a2a/spec"
	"innerd/adapter/netguard"
)

// What the methods return; test with errors.Is.
var (
	ErrNotFound = errors.New("no such push notification configuration")
	ErrTooMany  = errors.New("the task has as many push notification configurations as it may have")
	ErrUnsafe   = netguard.ErrUnsafe
	// ErrGone is what a Source returns for a task that is not kept any more.
	ErrGone = errors.New("the task is gone")
)

// Limits.
const (
	maxConfigs   = 16               // of one task
	maxParallel  = 16               // requests at once of one owner
	maxAgain     = 8                // and of those whose last one failed
	callTimeout  = 20 * time.Second // of one request
	firstBackoff = time.Second
	maxBackoff   = 5 * time.Minute
	giveUp       = 24 * time.Hour
	pruneEvery   = time.Hour
)

// Store keeps files below the state directory; *journal.Store is one.
type Store interface {
	WriteFile(rel string, data []byte) error
	PutFile(rel string, data []byte) error
	ReadFile(rel string) ([]byte, error)
	RemoveAll(rel string) error
	ReadDir(rel string) ([]string, error)
}

// Feed gives the notifications of a task, one after another.
type Feed interface {
	// Next waits for the next one. id is the place in the log behind it; 0
	// leaves the place as it was. io.EOF after the last.
	Next(ctx context.Context) (payload []byte, id int64, err error)
	Close()
}

// Source opens the feed of an owner's task behind a place in its log. ErrGone.
type Source func(ctx context.Context, owner, taskID string, after int64) (Feed, error)

// Options are a Service's. Guard is required.
type Options struct {
	Guard  *netguard.Guard
	Logger *slog.Logger
	// Backoff is the first time between two tries, which doubles up to 5 min;
	// 0: 1 s.
	Backoff time.Duration
	// GiveUp is for how long a receiver that takes nothing is tried; then its
	// configuration gets nothing more. 0: 24 h.
	GiveUp time.Duration
}

// Service keeps configurations and delivers. Its methods may be called at the
// same time.
type Service struct {
	opt    Options
	source Source
	client *http.Client

	ctx  context.Context // of every delivery
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the order of files
	store   Store      // nil until Start
	started bool
	configs map[string][]*delivery // by task
	slots   map[line]chan struct{} // two for each owner
	failing map[place]bool         // whose last request failed
}

// place is where an owner's notifications go.
type place struct{ owner, host string }

// line is what deliveries stand in for their request: one owner's receivers
// keep nobody else's waiting, and places that fail keep none that take.
type line struct {
	owner string
	again bool
}

// delivery is one configuration and how far it got.
type delivery struct {
	Owner   string          `json:"owner"`
	Config  spec.PushConfig `json:"config"`
	After   int64           `json:"after"`
	Done    bool            `json:"done"`    // the task's last notification was delivered
	Created int64           `json:"created"` // orders lists

	cancel context.CancelFunc // ends its goroutine; nil while there is none
	gone   bool               // deleted or replaced: its file is not its own any more
}

// New makes a Service. Nothing is delivered until Start.
func New(opt Options, source Source) (*Service, error) {
	if opt.Guard == nil {
		return nil, errors.New("push: Guard is required: without it anybody could make this server call anything")
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Backoff <= 0 {
		opt.Backoff = firstBackoff
	}
	if opt.GiveUp <= 0 {
		opt.GiveUp = giveUp
	}
	s := &Service{
		opt: opt, source: source, client: opt.Guard.Client(callTimeout, 0),
		slots: map[line]chan struct{}{}, failing: map[place]bool{}, configs: map[string][]*delivery{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Start reads what an earlier server left, goes on with every delivery that is
// not done, and from time to time forgets the configurations of tasks that are
// not kept any more.
func (s *Service) Start(store Store, kept func(owner, taskID string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.started = store, true
	s.loadLocked()
	s.pruneLocked(kept)
	for _, list := range s.configs {
		for _, d := range list {
			s.launchLocked(d)
		}
	}
	s.wg.Add(1)
	go func() { // ends with Close
		defer s.wg.Done()
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.mu.Lock()
				s.pruneLocked(kept)
				clear(s.failing) // whoever still fails is back soon
				s.mu.Unlock()
			case <-s.ctx.Done():
				return
			}
		}
	}()
}

func (s *Service) loadLocked() {
	tasks, err := s.store.ReadDir(root)
	if err != nil {
		return // none yet
	}
	for _, task := range tasks {
		files, err := s.store.ReadDir(root + "/" + task)
		if err != nil {
			continue
		}
		for _, file := range files {
			raw, err := s.store.ReadFile(root + "/" + task + "/" + file)
			d := &delivery{}
			if err != nil || json.Unmarshal(raw, d) != nil || d.Config.TaskID != task {
				s.opt.Logger.Warn("a push notification configuration is damaged and left alone", "run", task)
				continue
			}
			s.configs[task] = append(s.configs[task], d)
		}
		sort.Slice(s.configs[task], func(i, j int) bool { return s.configs[task][i].Created < s.configs[task][j].Created })
	}
}

func (s *Service) pruneLocked(kept func(owner, taskID string) bool) {
	for task, list := range s.configs {
		if len(list) > 0 && kept(list[0].Owner, task) {
			continue
		}
		for _, d := range list {
			d.endLocked()
		}
		delete(s.configs, task)
		if err := s.store.RemoveAll(root + "/" + task); err != nil {
			s.opt.Logger.Warn("push notification configurations were not removed", "run", task, "error", err)
		}
	}
}

// Close ends every delivery where it is, and waits for it.
func (s *Service) Close() {
	s.stop()
	s.wg.Wait()
	s.client.CloseIdleConnections()
}

const root = "a2a/push"

func (d *delivery) path() string {
	sum := sha256.Sum256([]byte(d.Config.ID))
	return root + "/" + d.Config.TaskID + "/" + hex.EncodeToString(sum[:16]) + ".json"
}

// Check refuses a configuration that could not be delivered to.
func (s *Service) Check(ctx context.Context, c *spec.PushConfig) error {
	if c.URL == "" {
		return fmt.Errorf("%w: there is none", ErrUnsafe)
	}
	for _, secret := range []string{c.Token, authorization(c)} {
		if !headerText(secret) {
			return fmt.Errorf("%w: token and authentication must stand in one line of a header, without control characters", ErrUnsafe)
		}
	}
	_, err := s.opt.Guard.Check(ctx, c.URL)
	return err
}

// Create keeps a configuration, which takes the place of one of the same id,
// and delivers what comes behind a place in the task's log.
func (s *Service) Create(owner string, c spec.PushConfig, after int64) (spec.PushConfig, error) {
	if c.ID == "" {
		c.ID = c.TaskID
	}
	d := &delivery{Owner: owner, Config: c, After: after, Created: time.Now().UnixNano()}
	raw, err := json.Marshal(d)
	if err != nil {
		return c, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ofLocked(owner, c.TaskID)
	i := indexOf(list, c.ID)
	if i < 0 && len(list) >= maxConfigs {
		return c, fmt.Errorf("%w: %d", ErrTooMany, maxConfigs)
	}
	if s.store == nil {
		return c, errors.New("push: no store")
	}
	if err := s.store.WriteFile(d.path(), raw); err != nil {
		return c, err
	}
	if i >= 0 {
		list[i].endLocked()
		list[i] = d
	} else {
		s.configs[c.TaskID] = append(list, d)
	}
	s.launchLocked(d)
	return c, nil
}

// ofLocked is the configurations of an owner's task. Ids may be clients', and be
// used again when their task is gone: what another owner left there goes too.
func (s *Service) ofLocked(owner, taskID string) []*delivery {
	list := s.configs[taskID]
	if len(list) == 0 || list[0].Owner == owner {
		return list
	}
	s.pruneLocked(func(_, id string) bool { return id != taskID })
	return nil
}

func indexOf(list []*delivery, id string) int {
	for i, d := range list {
		if d.Config.ID == id {
			return i
		}
	}
	return -1
}

// Get gives a configuration. ErrNotFound.
func (s *Service) Get(owner, taskID, id string) (spec.PushConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ofLocked(owner, taskID)
	if i := indexOf(list, id); i >= 0 {
		return list[i].Config, nil
	}
	return spec.PushConfig{}, ErrNotFound
}

// List gives the configurations of a task, oldest first.
func (s *Service) List(owner, taskID string) []spec.PushConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []spec.PushConfig{}
	for _, d := range s.ofLocked(owner, taskID) {
		out = append(out, d.Config)
	}
	return out
}

// Delete forgets a configuration; one that is not there is none already.
func (s *Service) Delete(owner, taskID, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.configs[taskID]
	i := indexOf(list, id)
	if i < 0 || list[i].Owner != owner {
		return nil
	}
	return s.deleteLocked(list[i])
}

// drop is Delete of what may have been replaced meanwhile.
func (s *Service) drop(d *delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.gone {
		return nil
	}
	return s.deleteLocked(d)
}

func (s *Service) deleteLocked(d *delivery) error {
	list, taskID := s.configs[d.Config.TaskID], d.Config.TaskID
	i := indexOf(list, d.Config.ID)
	d.endLocked()
	if list = append(list[:i:i], list[i+1:]...); len(list) > 0 {
		s.configs[taskID] = list
		return s.store.RemoveAll(d.path())
	}
	delete(s.configs, taskID)
	return s.store.RemoveAll(root + "/" + taskID)
}

// endLocked ends a delivery whose configuration goes.
func (d *delivery) endLocked() {
	d.gone = true
	if d.cancel != nil {
		d.cancel()
		d.cancel = nil
	}
}

func (s *Service) launchLocked(d *delivery) {
	if !s.started || d.Done || d.cancel != nil || s.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	d.cancel = cancel
	s.wg.Add(1)
	go func() { // ends with the task's last notification, with the configuration, or with Close
		defer s.wg.Done()
		defer cancel()
		s.run(ctx, d)
	}()
}
