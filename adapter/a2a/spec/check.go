package spec

import (
	"fmt"
	"mime"
	"strings"
)

// Check refuses a message that no agent could take.
func (m *Message) Check() error {
	switch {
	case m == nil:
		return InvalidParams("message", "is required")
	case m.MessageID == "":
		return InvalidParams("message.messageId", "is required")
	case m.Role == "" || m.Role == "ROLE_UNSPECIFIED":
		return InvalidParams("message.role", "is required")
	case m.Role != RoleUser:
		return InvalidParams("message.role", "must be "+string(RoleUser)+" in what a client sends")
	case len(m.Parts) == 0:
		return InvalidParams("message.parts", "must not be empty")
	}
	for i := range m.Parts {
		if err := m.Parts[i].check(fmt.Sprintf("message.parts[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Part) check(field string) error {
	n := 0
	for _, set := range []bool{p.Text != nil, p.Raw != nil, p.URL != nil, p.Data != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return InvalidParams(field, "must have exactly one of text, raw, url, data")
	}
	if p.MediaType == "" {
		return nil
	}
	if t, _, err := mime.ParseMediaType(p.MediaType); err != nil || !accepted(t) {
		return ErrContentType.With("%s: the media type %q is not supported; these are: %s", field, p.MediaType, strings.Join(InputModes, ", "))
	}
	return nil
}

// InputModes are the media types that an agent here takes.
var InputModes = []string{"text/*", "image/*", "audio/*", "video/*", "application/json", "application/pdf", "application/xml", "application/yaml", "application/zip", "application/octet-stream"}

func accepted(t string) bool {
	for _, m := range InputModes {
		if family, all := strings.CutSuffix(m, "*"); m == t || all && strings.HasPrefix(t, family) {
			return true
		}
	}
	return strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml")
}
