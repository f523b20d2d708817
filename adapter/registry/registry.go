// Package registry keeps the cards of other agents, for hosts that look for
// one: listed, added by hand or fetched from a URL, and chosen by what a prompt
// is about. Each owner has a list of its own.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"time"

	"innerd/adapter/netguard"
)

const (
	maxAgents   = 1000 // of one owner
	maxCard     = 1 << 20
	maxTotal    = 16 << 20 // bytes of one owner's cards
	fetchTime   = 10 * time.Second
	redirects   = 3
	cardPath    = "/.well-known/agent-card.json"
	oldCardPath = "/.well-known/agent.json"
)

// What the methods return; test with errors.Is.
var (
	ErrInvalid  = errors.New("invalid agent")
	ErrNotFound = errors.New("no such agent")
	ErrFetch    = errors.New("the agent's card could not be fetched")
	ErrNone     = errors.New("no agents are registered")
	ErrFull     = errors.New("the registry is full")
)

// Store keeps files below the state directory.
type Store interface {
	WriteFile(rel string, data []byte) error
	ReadFile(rel string) ([]byte, error)
}

// Options of a Registry. Guard is required.
type Options struct {
	Guard  *netguard.Guard
	Logger *slog.Logger
}

// Agent is a card as it was given, with what is needed of it.
type Agent struct {
	Name string
	URL  string
	Card json.RawMessage
	tags []string
	text string // all words of it, for route
}

// Registry is the lists of all owners. Its methods may be called at the same
// time.
type Registry struct {
	opt    Options
	client *http.Client

	mu     sync.Mutex // guards what follows, and the file
	store  Store      // nil until Use
	agents map[string]map[string]Agent
}

// New makes an empty registry.
func New(opt Options) *Registry {
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	return &Registry{opt: opt, client: opt.Guard.Client(fetchTime, redirects), agents: map[string]map[string]Agent{}}
}

const file = "agents.json"

// Use gives where the lists are kept, and reads what an earlier server kept.
func (r *Registry) Use(store Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store = store
	early := r.agents // registered while the server started
	r.agents = map[string]map[string]Agent{}
	defer func() {
		for owner, agents := range early {
			for _, a := range agents {
				r.putLocked(owner, a)
			}
		}
		if len(early) == 0 {
			return
		}
		if err := r.saveLocked(); err != nil {
			r.opt.Logger.Warn("the list of agents was not written", "error", err)
		}
	}()
	raw, err := store.ReadFile(file)
	if err != nil {
		return // none yet
	}
	var kept map[string][]json.RawMessage
	if err := json.Unmarshal(raw, &kept); err != nil {
		r.opt.Logger.Warn("the list of agents is damaged and left alone", "error", err)
		return
	}
	for owner, cards := range kept {
		for _, card := range cards {
			if a, err := parse(card); err == nil {
				r.putLocked(owner, a)
			}
		}
	}
}

func (r *Registry) putLocked(owner string, a Agent) {
	if r.agents[owner] == nil {
		r.agents[owner] = map[string]Agent{}
	}
	r.agents[owner][a.Name] = a
}

func (r *Registry) saveLocked() error {
	if r.store == nil {
		return nil
	}
	kept := map[string][]json.RawMessage{}
	for owner := range r.agents {
		for _, a := range r.listLocked(owner) {
			kept[owner] = append(kept[owner], a.Card)
		}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return r.store.WriteFile(file, raw)
}

func (r *Registry) listLocked(owner string) []Agent {
	out := make([]Agent, 0, len(r.agents[owner]))
	for _, a := range r.agents[owner] {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// List gives the owner's agents, by name.
func (r *Registry) List(owner string) []Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listLocked(owner)
}

// Register adds a card, in the place of one of the same name. ErrInvalid,
// netguard.ErrUnsafe, ErrFull.
func (r *Registry) Register(ctx context.Context, owner string, card json.RawMessage) (Agent, error) {
	a, err := parse(card)
	if err != nil {
		return a, err
	}
	if u, err := url.Parse(a.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return a, fmt.Errorf("%w: url must be an http URL", ErrInvalid)
	}
	return a, r.add(owner, a)
}

func (r *Registry) add(owner string, a Agent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.agents[owner][a.Name]; !known && len(r.agents[owner]) >= maxAgents {
		return fmt.Errorf("%w: %d agents", ErrFull, maxAgents)
	}
	total := len(a.Card)
	for name, have := range r.agents[owner] {
		if name != a.Name {
			total += len(have.Card)
		}
	}
	if total > maxTotal {
		return fmt.Errorf("%w: %d bytes of cards", ErrFull, maxTotal)
	}
	r.putLocked(owner, a)
	return r.saveLocked()
}

// Remove forgets an agent. ErrNotFound.
func (r *Registry) Remove(owner, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.agents[owner][name]; !ok {
		return ErrNotFound
	}
	delete(r.agents[owner], name)
	return r.saveLocked()
}

// Discover fetches an agent's card and registers it. The URL is that of the
// card, or of what it is the card of. netguard.ErrUnsafe, ErrFetch.
func (r *Registry) Discover(ctx context.Context, owner, raw string) (Agent, error) {
	u, err := r.opt.Guard.Check(ctx, raw)
	if err != nil {
		return Agent{}, err
	}
	tries := []string{raw}
	if !strings.HasSuffix(u.Path, ".json") {
		base := strings.TrimRight(raw, "/")
		tries = []string{base + cardPath, base + oldCardPath}
	}
	var card json.RawMessage
	for _, at := range tries {
		if card, err = r.fetch(ctx, at); err == nil || errors.Is(err, netguard.ErrUnsafe) {
			break
		}
	}
	if err != nil {
		return Agent{}, err
	}
	a, err := parse(withURL(card, strings.TrimRight(raw, "/")))
	if err != nil {
		return a, fmt.Errorf("%w: %v", ErrFetch, err)
	}
	return a, r.add(owner, a)
}

// withURL gives a card of 1.0, which has no url of its own, that of where it
// answers.
func withURL(card json.RawMessage, otherwise string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(card, &members) != nil || members["url"] != nil {
		return card
	}
	var at struct {
		Interfaces []struct {
			URL string `json:"url"`
		} `json:"supportedInterfaces"`
	}
	_ = json.Unmarshal(card, &at)
	for _, i := range at.Interfaces {
		if strings.HasPrefix(i.URL, "http") {
			otherwise = i.URL
			break
		}
	}
	members["url"], _ = json.Marshal(otherwise)
	out, err := json.Marshal(members)
	if err != nil {
		return card
	}
	return out
}

func (r *Registry) fetch(ctx context.Context, at string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be called", ErrFetch)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		if errors.Is(err, netguard.ErrUnsafe) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrFetch, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: the answer is %s", ErrFetch, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxCard+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFetch, err)
	case len(raw) > maxCard:
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrFetch, maxCard)
	case !json.Valid(raw):
		return nil, fmt.Errorf("%w: the answer is not JSON", ErrFetch)
	}
	return raw, nil
}

// parse reads what is needed of a card.
func parse(card json.RawMessage) (Agent, error) {
	var c struct {
		Name        string   `json:"name"`
		URL         string   `json:"url"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
		Skills      []struct {
			ID, Name, Description string
			Tags, Examples        []string
		} `json:"skills"`
	}
	if err := json.Unmarshal(card, &c); err != nil {
		return Agent{}, fmt.Errorf("%w: the card cannot be read: %w", ErrInvalid, err)
	}
	a := Agent{Name: strings.TrimSpace(c.Name), URL: strings.TrimSpace(c.URL), Card: card}
	switch {
	case a.Name == "":
		return a, fmt.Errorf("%w: name is required", ErrInvalid)
	case a.URL == "":
		return a, fmt.Errorf("%w: url is required", ErrInvalid)
	}
	words := []string{c.Name, c.Description}
	a.tags = append(a.tags, c.Tags...)
	for _, s := range c.Skills {
		a.tags = append(a.tags, s.Tags...)
		words = append(words, s.ID, s.Name, s.Description)
		words = append(words, s.Examples...)
	}
	words = append(words, a.tags...)
	a.text = strings.ToLower(strings.Join(words, " "))
	return a, nil
}

// Route chooses the agent for a prompt: a single one, else the one with most of
// the tags, then of the words. ErrNone.
func (r *Registry) Route(owner, prompt string, tags []string) (Agent, error) {
	list := r.List(owner)
	if len(list) == 0 {
		return Agent{}, ErrNone
	}
	best, bestTags, bestWords := list[0], -1, -1
	said := wordsOf(prompt)
	for _, a := range list {
		t, w := a.score(said, tags)
		if t > bestTags || t == bestTags && w > bestWords {
			best, bestTags, bestWords = a, t, w
		}
	}
	return best, nil
}

// maxPrompt is how much of a prompt is looked at, in bytes: what it is about
// stands at its beginning.
const maxPrompt = 64 << 10

// wordsOf are the words of a prompt that say something, each once.
func wordsOf(prompt string) map[string]bool {
	said := map[string]bool{}
	for _, w := range words(strings.ToLower(prompt[:min(len(prompt), maxPrompt)])) {
		if len(w) > 2 {
			said[w] = true
		}
	}
	return said
}

func (a Agent) score(said map[string]bool, tags []string) (byTags, byWords int) {
	for _, want := range tags {
		for _, have := range a.tags {
			if strings.EqualFold(strings.TrimSpace(want), have) {
				byTags++
				break
			}
		}
	}
	counted := map[string]bool{}
	for _, w := range words(a.text) {
		if said[w] && !counted[w] {
			counted[w] = true
			byWords++
		}
	}
	return byTags, byWords
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 0x7f) })
}
