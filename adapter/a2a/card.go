package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/runs"
)

// profileBinding names the host-loop profile as a binding.
const profileBinding = "urn:innerd:host-loop:v1"

// cardAge is how long a card may be kept, in seconds.
const cardAge = "max-age=60"

// RootCard serves the card of all agents, at the host's well-known path.
func (s *Server) RootCard() http.Handler {
	return s.recovered(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("A2A-Version", spec.Version)
		s.serveCard(w, r, "")
	})
}

func (s *Server) serveCard(w http.ResponseWriter, r *http.Request, tenant string) {
	if !onlyRead(w, r) {
		return
	}
	card, err := s.card(r.Context(), s.base(r), tenant)
	if err != nil {
		s.failREST(w, r, err)
		return
	}
	raw, err := s.signed(card)
	if err != nil {
		s.failREST(w, r, err)
		return
	}
	if s.opt.BothRoot && tenant == "" {
		raw = bothGenerations(card, s.legacyURL(s.base(r), ""))
	}
	s.writeCard(w, r, raw)
}

// onlyRead refuses a method that a card does not know.
func onlyRead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	writeJSON(w, http.StatusMethodNotAllowed, "application/json", errPath.REST())
	return false
}

// writeCard answers with a card, or says that the caller has it.
func (s *Server) writeCard(w http.ResponseWriter, r *http.Request, raw []byte) {
	h := w.Header()
	h.Set("Cache-Control", "public, "+cardAge)
	h.Set("Vary", "Host, X-Forwarded-Host, X-Forwarded-Proto")
	tag := etag(raw)
	h.Set("ETag", tag)
	for given := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if given = strings.TrimPrefix(strings.TrimSpace(given), "W/"); given == tag || given == "*" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	writeJSON(w, http.StatusOK, "application/json", raw)
}

// etag is that of a card without its signatures, of which some are another one
// each time.
func etag(raw []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) == nil {
		delete(members, "signatures")
		raw = encode(members)
	}
	sum := sha256.Sum256(raw)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// ExtendedCard is the card for callers with a key: it also tells of agents
// that cannot run, and why.
func (s *Server) ExtendedCard(ctx context.Context, c Call, req *spec.ExtendedCardRequest) (*spec.AgentCard, error) {
	if s.opt.Open {
		return nil, spec.ErrUnsupported.With("there is no extended card where no key is asked for")
	}
	if c.Owner == "" {
		return nil, spec.ErrUnauthenticated
	}
	m, err := s.runs(ctx)
	if err != nil {
		return nil, err
	}
	tenant, err := s.tenant(ctx, m, c, req.Tenant)
	if err != nil {
		return nil, err
	}
	base := c.Base
	for _, known := range []string{s.opt.URL, s.opt.Local} {
		if base == "" && known != "" {
			base = strings.TrimRight(known, "/") + "/"
		}
	}
	card, err := s.card(ctx, base, tenant)
	if err != nil {
		return nil, err
	}
	card.Skills = nil
	for _, b := range m.Backends(ctx) {
		if tenant == "" || tenant == b.Name {
			card.Skills = append(card.Skills, extendedSkill(b))
		}
	}
	if s.opt.Signer != nil {
		if err := s.opt.Signer.Sign(card); err != nil {
			return nil, err
		}
	}
	return card, nil
}

// card is the card of an agent, or of all of them.
func (s *Server) card(ctx context.Context, base, tenant string) (*spec.AgentCard, error) {
	m, err := s.runs(ctx)
	if err != nil {
		return nil, err
	}
	card := &spec.AgentCard{
		Name: "innerd", Description: "Coding agents in a sandbox: they read, write and run code in its workspace.", Version: s.opt.Version,
		SupportedInterfaces: s.interfaces(base, tenant),
		Capabilities: spec.AgentCapabilities{
			Streaming: true, PushNotifications: s.push != nil, ExtendedAgentCard: !s.opt.Open,
		},
		DefaultInputModes:  []string{"text/plain", "text/markdown", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "application/octet-stream"},
		DefaultOutputModes: []string{"text/plain", "text/x-diff", "application/json"},
	}
	var names []string
	var found *runs.BackendInfo
	for _, b := range m.Backends(ctx) {
		if tenant != "" && b.Name != tenant {
			continue
		}
		found = &b
		names = append(names, b.Name)
		if b.Usable {
			card.Skills = append(card.Skills, skill(b))
		}
	}
	if tenant != "" {
		if found == nil {
			return nil, spec.ErrMethod.With("there is no agent %q here", tenant)
		}
		card.Name, card.Description = "innerd/"+tenant, title(tenant)+" in a sandbox: it reads, writes and runs code in its workspace."
	}
	if len(card.Skills) == 0 {
		card.Skills = []spec.AgentSkill{{ID: "coding", Name: "Coding", Description: "Reads, writes and runs code. No agent can run at the moment.", Tags: []string{"coding"}}}
	}
	card.Capabilities.Extensions = []spec.AgentExtension{{
		URI: extension.URI, Description: "What a coding agent does beside answering: tool calls, reasoning, plans, permissions, usage; and tools that the client lends.",
		Params: map[string]any{"agents": names, "permission_modes": []string{"auto", "ask", "deny"}},
	}}
	if !s.opt.Open {
		card.SecuritySchemes = map[string]spec.SecurityScheme{"bearer": {HTTPAuth: &spec.HTTPAuthScheme{Scheme: "Bearer", Description: "A key of this server"}}}
		// No securityRequirements: the official Go client cannot read a card
		// that has them as ProtoJSON says, others only read that.
	}
	return card, nil
}

// interfaces are where an agent answers, the best first.
func (s *Server) interfaces(base, tenant string) []spec.AgentInterface {
	at := base + strings.TrimPrefix(Prefix, "/")
	if tenant != "" {
		at += "/agents/" + tenant
	}
	out := []spec.AgentInterface{
		{URL: at, ProtocolBinding: spec.BindingJSONRPC, ProtocolVersion: spec.Version},
		{URL: at, ProtocolBinding: spec.BindingREST, ProtocolVersion: spec.Version},
	}
	if s.opt.GRPC != "" {
		out = append(out, spec.AgentInterface{URL: grpcAt(s.opt.GRPC, base), ProtocolBinding: spec.BindingGRPC, Tenant: tenant, ProtocolVersion: spec.Version})
	}
	if s.opt.Profile && tenant == "" {
		out = append(out, spec.AgentInterface{URL: base, ProtocolBinding: profileBinding, ProtocolVersion: spec.Version})
	}
	return out
}

// grpcAt is the address of the gRPC listener: as it was configured, or, where
// that has no host, the host at which this server was reached.
func grpcAt(addr, base string) string {
	if !strings.HasPrefix(addr, ":") {
		return addr
	}
	host := base
	if _, rest, ok := strings.Cut(base, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return host + addr
}

func title(name string) string {
	switch name {
	case "claude-code":
		return "Claude Code"
	case "codex":
		return "OpenAI Codex"
	case "copilot":
		return "GitHub Copilot"
	case "simulate":
		return "A simulated agent"
	}
	return name
}

// skill is what an agent can do, by its capabilities.
func skill(b runs.BackendInfo) spec.AgentSkill {
	out := spec.AgentSkill{
		ID: b.Name, Name: title(b.Name), Description: title(b.Name) + " reads, writes and runs code in the sandbox's workspace.",
		Tags:     []string{"coding", "agent", b.Name},
		Examples: []string{"Fix the failing test in this repository.", "Explain what the main package does."},
	}
	for _, can := range []struct {
		yes bool
		tag string
	}{
		{b.Capabilities.Reasoning, "reasoning"},
		{b.Capabilities.Tools, "client-tools"},
		{b.Capabilities.Images, "images"},
		{b.Capabilities.Schema, "structured-output"},
		{b.Capabilities.Steer, "steering"},
		{b.Capabilities.Permissions, "permissions"},
	} {
		if can.yes {
			out.Tags = append(out.Tags, can.tag)
		}
	}
	return out
}

func extendedSkill(b runs.BackendInfo) spec.AgentSkill {
	out := skill(b)
	if b.Version != "" {
		out.Description += " Version " + b.Version + "."
	}
	if len(b.Models) > 0 {
		out.Description += " Models: " + join(b.Models) + "."
	}
	if !b.Usable {
		out.Tags = append(out.Tags, "unusable")
		out.Description += " It cannot run now: " + strings.TrimSpace(b.Why+" "+b.Hint)
	}
	return out
}
