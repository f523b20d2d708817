package a2a

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"innerd/adapter/a2a/spec"
)

// LegacyPrefix is where A2A 0.3 is mounted.
const LegacyPrefix = "/v0.3"

type tenantKey struct{}

// WithTenant notes the agent that a path names, for bindings that read it from
// the context.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf is the agent that the path of a request names.
func TenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// LegacyHandler serves A2A 0.3 below LegacyPrefix: its card, JSON-RPC at the
// prefix, HTTP+JSON below /v1, and all of it for each agent below
// /agents/{name}.
func (s *Server) LegacyHandler() http.Handler {
	return s.recovered(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("A2A-Version", "0.3")
		segs := segments(strings.TrimPrefix(r.URL.Path, LegacyPrefix))
		c := s.call(r)
		if len(segs) > 1 && segs[0] == "agents" {
			c.Tenant, segs = segs[1], segs[2:]
		}
		if version, err := versionOf(r); err != nil || version == spec.Version {
			s.failREST(w, r, spec.ErrVersion.With("A2A 0.3 is served here; 1.0 is at %s", Prefix))
			return
		}
		legacy := s.legacy.Load()
		switch {
		case "/"+strings.Join(segs, "/") == CardPath:
			s.serveLegacyCard(w, r, c.Tenant)
		case legacy == nil:
			s.failREST(w, r, errPath)
		case len(segs) == 0:
			if !onlyPost(w, r) {
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, s.opt.BodyLimit) // the SDK's handlers know no limit
			legacy.RPC.ServeHTTP(w, r.WithContext(WithTenant(r.Context(), c.Tenant)))
		default:
			s.serveLegacyREST(w, r, c, segs)
		}
	})
}

// serveLegacyREST gives a request below /v1 to what serves 0.3.
func (s *Server) serveLegacyREST(w http.ResponseWriter, r *http.Request, c Call, segs []string) {
	legacy := s.legacy.Load()
	if legacy == nil || segs[0] != "v1" {
		s.failREST(w, r, errPath)
		return
	}
	r2 := r.WithContext(WithTenant(r.Context(), c.Tenant))
	r2.URL = &url.URL{}
	*r2.URL = *r.URL
	r2.URL.Path, r2.URL.RawPath = "/"+strings.Join(segs, "/"), ""
	r2.Body = http.MaxBytesReader(w, r.Body, s.opt.BodyLimit)
	legacy.REST.ServeHTTP(w, r2)
}

func (s *Server) serveLegacyCard(w http.ResponseWriter, r *http.Request, tenant string) {
	if !onlyRead(w, r) {
		return
	}
	card, err := s.card(r.Context(), s.base(r), tenant)
	if err != nil {
		s.failREST(w, r, err)
		return
	}
	s.writeCard(w, r, encode(legacyFields(card, s.legacyURL(s.base(r), tenant))))
}

func (s *Server) legacyURL(base, tenant string) string {
	if tenant != "" {
		return base + "v0.3/agents/" + tenant + "/"
	}
	return base + "v0.3/"
}

// legacyCard is a card as 0.3 has it.
type legacyCard struct {
	ProtocolVersion      string                  `json:"protocolVersion"`
	Name                 string                  `json:"name"`
	Description          string                  `json:"description"`
	URL                  string                  `json:"url"`
	PreferredTransport   string                  `json:"preferredTransport"`
	AdditionalInterfaces []legacyInterface       `json:"additionalInterfaces"`
	Version              string                  `json:"version"`
	DocumentationURL     string                  `json:"documentationUrl,omitempty"`
	Capabilities         spec.AgentCapabilities  `json:"capabilities"`
	SecuritySchemes      map[string]legacyScheme `json:"securitySchemes,omitempty"`
	Security             []map[string][]string   `json:"security,omitempty"`
	DefaultInputModes    []string                `json:"defaultInputModes"`
	DefaultOutputModes   []string                `json:"defaultOutputModes"`
	Skills               []spec.AgentSkill       `json:"skills"`
	ExtendedCard         bool                    `json:"supportsAuthenticatedExtendedCard,omitempty"`
}

type legacyInterface struct {
	URL       string `json:"url"`
	Transport string `json:"transport"`
}

// legacyScheme says a scheme twice: as 0.3 and as 1.0 have it.
type legacyScheme struct {
	Type   string `json:"type"`
	Scheme string `json:"scheme"`
	spec.SecurityScheme
}

// legacyFields is a card of 0.3 at a URL.
func legacyFields(card *spec.AgentCard, at string) legacyCard {
	out := legacyCard{
		ProtocolVersion: "0.3.0", Name: card.Name, Description: card.Description, URL: at, PreferredTransport: spec.BindingJSONRPC,
		AdditionalInterfaces: []legacyInterface{
			{at, spec.BindingJSONRPC}, {strings.TrimSuffix(at, "/"), spec.BindingREST},
		},
		Version: card.Version, DocumentationURL: card.DocumentationURL, Capabilities: card.Capabilities,
		DefaultInputModes: card.DefaultInputModes, DefaultOutputModes: card.DefaultOutputModes, Skills: card.Skills,
		ExtendedCard: card.Capabilities.ExtendedAgentCard,
	}
	for name, scheme := range card.SecuritySchemes {
		out.SecuritySchemes = map[string]legacyScheme{name: {Type: "http", Scheme: "bearer", SecurityScheme: scheme}}
		out.Security = []map[string][]string{{name: {}}}
	}
	return out
}

// bothGenerations is a card of 1.0 with the members of 0.3 beside them: for
// clients of 0.3 that look at the root alone. The schema of 1.0 allows no
// other members, so it is a setting.
func bothGenerations(card *spec.AgentCard, at string) json.RawMessage {
	var out map[string]json.RawMessage
	for _, v := range []any{card, legacyFields(card, at)} { // what both have is the same, or good for both
		_ = json.Unmarshal(encode(v), &out)
	}
	return encode(out)
}
