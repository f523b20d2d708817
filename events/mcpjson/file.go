package mcpjson

import (
	"encoding/base64"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"innerd/events"
)

// file embeds a part as a resource: as text where it is text, so that the
// model reads it without a decoder.
func file(p events.Part) content {
	name := p.Name
	if name == "" {
		name = p.Type
	}
	// Not file:, since there is no such file on the agent's machine.
	r := &resource{URI: "attachment:///" + url.PathEscape(name), MimeType: p.MimeType}
	if s, ok := plain(p); ok {
		r.Text = &s
	} else {
		r.Blob = p.Data
	}
	return content{Type: "resource", Resource: r}
}

func plain(p events.Part) (string, bool) {
	typ, _, err := mime.ParseMediaType(p.MimeType)
	if err != nil || !strings.HasPrefix(typ, "text/") && typ != "application/json" {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(p.Data)
	if err != nil || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}
