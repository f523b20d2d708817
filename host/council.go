package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"innerd/events"
	"innerd/host/billing"
)

// Member is one voice of a Council.
type Member struct {
	Name     string   // "": its backend and model
	Strategy Strategy // who answers: Delegated, Native, an InnerLoop
	Backend  string   // in the request's metadata; "": the strategy's
	Model    string
	System   string // "": the request's
}

func (m *Member) name() string {
	switch {
	case m.Name != "":
		return m.Name
	case m.Model == "":
		return m.Backend
	case m.Backend == "":
		return m.Model
	}
	return m.Backend + "/" + m.Model
}

// Council asks the same question of several agents or models at once, and has
// one more put their answers together.
type Council struct {
	Members   []Member
	Synthesis Member

	// Timeout is of each member, and of the synthesis; 180 s. One that takes
	// longer is canceled, and counts as failed.
	Timeout time.Duration
	// Enough is how many answers a synthesis needs; 1.
	Enough int
	// Prompt makes the synthesis' message of the answers; nil: one of ours.
	Prompt func(question string, answers []Opinion) string
	// Billing charges the members' usage; nil: the costs that they report.
	Billing billing.Strategy
}

// Opinion is what a member, or the synthesis, came to.
type Opinion struct {
	Member  string
	Outcome *Outcome
	Err     error // why there is no answer; Outcome has what was said before
	Bill    billing.Bill
}

// Verdict is what a council came to.
type Verdict struct {
	Opinions  []Opinion // as the Members are ordered
	Synthesis *Opinion  // nil: there were not enough answers
	Cost      billing.Amount
}

// Text is the synthesis' answer.
func (v *Verdict) Text() string {
	if v.Synthesis == nil {
		return ""
	}
	return v.Synthesis.Outcome.Text()
}

// CouncilEvent is an event of one member, or of the synthesis. Each of them is
// a stream of its own, in its own order; here they take turns as they come.
type CouncilEvent struct {
	Member    string
	Synthesis bool
	Event     events.Event // its Data is nil in the member's last
	Opinion   *Opinion     // set in the member's last: what it came to, also if it failed
	Verdict   *Verdict     // set in the council's last alone
}

// Ask asks the members and then the synthesis. Members that fail are shown, and
// do not end the council while Enough of the others answer; else the error says
// why each failed. The last event has the Verdict, in both cases.
func (c *Council) Ask(ctx context.Context, req Request) iter.Seq2[CouncilEvent, error] {
	return func(yield func(CouncilEvent, error) bool) {
		if len(c.Members) == 0 || c.Synthesis.Strategy == nil {
			yield(CouncilEvent{}, errors.New("host: a council needs members and a synthesis"))
			return
		}
		v := &Verdict{Opinions: make([]Opinion, len(c.Members))}
		if !c.members(ctx, req, v, yield) {
			return
		}
		err := c.conclude(ctx, req, v, func(e CouncilEvent) bool { return yield(e, nil) })
		if errors.Is(err, errStopped) {
			return
		}
		if yield(CouncilEvent{Verdict: v}, nil) && err != nil {
			yield(CouncilEvent{}, err)
		}
	}
}

// members runs all members at once and passes on what they say; false: the
// caller has left.
func (c *Council) members(ctx context.Context, req Request, v *Verdict, yield func(CouncilEvent, error) bool) bool {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	said := make(chan CouncilEvent)
	var wg sync.WaitGroup
	for i := range c.Members {
		wg.Go(func() { // ends with its run, which ctx cancels
			v.Opinions[i] = c.ask(ctx, &c.Members[i], c.question(req, &c.Members[i], SourceCouncil), func(e CouncilEvent) bool {
				select {
				case said <- e:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
	}
	go func() { wg.Wait(); close(said) }() // ends with the members
	left := false
	defer func() {
		stop(errStopped)
		for range said { //nolint:revive // until all members have ended
		}
	}()
	for e := range said {
		if left = !yield(e, nil); left {
			break
		}
	}
	return !left
}

// ask runs one member to its end; the last thing it tells is its opinion.
func (c *Council) ask(ctx context.Context, m *Member, req Request, tell func(CouncilEvent) bool) Opinion {
	name, synthesis := m.name(), req.Metadata.Source == SourceSynthesis
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = 180 * time.Second
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, &Error{
		ErrorType: events.ErrTimeout, Detail: fmt.Sprintf("%s did not answer within %s", name, timeout),
	})
	defer stop()
	o := Opinion{Member: name, Outcome: &Outcome{}}
	for ev, err := range Turn(ctx, m.Strategy, req) {
		if err != nil {
			o.Err = err
			break
		}
		o.Outcome.Add(ev)
		if !tell(CouncilEvent{Member: name, Synthesis: synthesis, Event: ev}) {
			o.Err = errStopped
			return o
		}
	}
	if o.Err == nil {
		o.Err = o.Outcome.Err()
	}
	if o.Err == nil && strings.TrimSpace(o.Outcome.Text()) == "" {
		o.Err = &Error{ErrorType: events.ErrEmptyTurn, Detail: name + " said nothing"}
	}
	if u := o.Outcome.Usage; u != nil {
		o.Bill = c.bill(*u)
	}
	tell(CouncilEvent{Member: name, Synthesis: synthesis, Opinion: &o})
	return o
}

// reported is the strategy of a council that was given none.
var reported = billing.ProviderReported{}

func (c *Council) bill(u events.Usage) billing.Bill {
	if c.Billing != nil {
		return c.Billing.Bill(u)
	}
	u.PremiumRequests, u.PremiumRequestsExact = nil, nil // they have no price here
	return reported.Bill(u)
}

// question is what a member is asked. Members share no conversation.
func (c *Council) question(req Request, m *Member, source string) Request {
	req.ContextID, req.Metadata.TaskID = "", ""
	req.Tools, req.Metadata.Tools = nil, nil
	req.Metadata.Backend, req.Metadata.Model, req.Metadata.Source = m.Backend, m.Model, source
	if m.System != "" {
		req.Metadata.System = m.System
	}
	return req
}

// conclude has the answers put together and sums the costs up.
func (c *Council) conclude(ctx context.Context, req Request, v *Verdict, tell func(CouncilEvent) bool) error {
	var answers []Opinion
	var failures []error
	for _, o := range v.Opinions {
		v.Cost = v.Cost.Add(o.Bill.Amount)
		if o.Err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", o.Member, o.Err))
			continue
		}
		answers = append(answers, o)
	}
	if len(answers) < max(1, c.Enough) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("host: %d of %d members answered, %d are needed: %w", len(answers), len(v.Opinions), max(1, c.Enough), errors.Join(failures...))
	}
	q := c.question(req, &c.Synthesis, SourceSynthesis)
	q.Messages = Prompt("", c.prompt(lastQuestion(req), answers)).Messages
	o := c.ask(ctx, &c.Synthesis, q, tell)
	if errors.Is(o.Err, errStopped) {
		return errStopped
	}
	v.Synthesis, v.Cost = &o, v.Cost.Add(o.Bill.Amount)
	if o.Err != nil {
		return fmt.Errorf("host: the synthesis: %w", o.Err)
	}
	return nil
}

func (c *Council) prompt(question string, answers []Opinion) string {
	if c.Prompt != nil {
		return c.Prompt(question, answers)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Several advisers answered the same question, each without knowing the others. Give the best answer that can be made of theirs. "+
		"Say where they disagree and which of them is right; do not speak of the advisers otherwise.\n\n<question>\n%s\n</question>\n", question)
	for _, o := range answers {
		fmt.Fprintf(&b, "\n<answer from=%q>\n%s\n</answer>\n", o.Member, o.Outcome.Text())
	}
	return b.String()
}

// lastQuestion is the last message of the user.
func lastQuestion(req Request) string {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if req.Messages[i].Role == "user" {
			return req.Messages[i].Content
		}
	}
	return req.Metadata.Query
}
