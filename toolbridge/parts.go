package toolbridge

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"innerd/events"
)

// loggable is parts with which an event can be encoded: raw JSON that is none
// becomes text.
func loggable(parts []events.Part) []events.Part {
	if len(parts) == 0 {
		return nil
	}
	out := make([]events.Part, len(parts))
	for i, p := range parts {
		if len(p.JSON) > 0 {
			p.JSON = quoted(p.JSON)
		}
		out[i] = p
	}
	return out
}

// usable is parts as every backend can take them: types and fields fit, data
// is base64 without white space, and what can't be used is a text that says so.
func usable(parts []events.Part) []events.Part {
	if len(parts) == 0 {
		return nil
	}
	out := make([]events.Part, len(parts))
	for i, p := range parts {
		fixed, why := usablePart(p)
		if why != "" {
			fixed = events.Text(fmt.Sprintf("[part %d of the tool's result can't be used: %s]", i+1, why))
		}
		out[i] = fixed
	}
	return out
}

func usablePart(p events.Part) (events.Part, string) {
	switch p.Type {
	case events.PartText:
		return events.Part{Type: p.Type, Text: p.Text, ID: p.ID}, ""
	case events.PartJSON:
		if len(p.JSON) == 0 {
			return p, "a json part without json"
		}
		return events.Part{Type: p.Type, JSON: p.JSON, ID: p.ID}, ""
	case events.PartImage, events.PartAudio, events.PartVideo, events.PartFile:
		return usableMedia(p)
	}
	return p, fmt.Sprintf("unknown type %q", p.Type)
}

var defaultMime = map[string]string{
	events.PartImage: "image/png",
	events.PartAudio: "audio/mpeg",
	events.PartVideo: "video/mp4",
	events.PartFile:  "application/octet-stream",
}

func usableMedia(p events.Part) (events.Part, string) {
	if rest, ok := strings.CutPrefix(p.URL, "data:"); ok && p.Data == "" {
		p.URL = ""
		p.Data = "data:" + rest
	}
	if rest, ok := strings.CutPrefix(p.Data, "data:"); ok {
		head, data, found := strings.Cut(rest, ",")
		mime, b64 := strings.CutSuffix(head, ";base64")
		if !found || !b64 {
			return p, "a data URL that is not base64"
		}
		p.Data = data
		if p.MimeType == "" {
			p.MimeType = mime
		}
	}
	if p.MimeType == "" {
		p.MimeType = defaultMime[p.Type]
	}
	p.Text, p.JSON = "", nil
	switch {
	case p.Data != "":
		data, err := cleanBase64(p.Data)
		if err != nil {
			return p, "its data is not base64"
		}
		p.Data, p.URL, p.Path = data, "", ""
	case p.URL != "":
		p.Path = ""
	case p.Path == "":
		return p, fmt.Sprintf("%s without data, url or path", p.Type)
	}
	return p, ""
}

// cleanBase64 checks data without keeping what it decodes to, and takes line
// ends out, which some encoders put in.
func cleanBase64(data string) (string, error) {
	if strings.ContainsAny(data, "\r\n\t ") {
		data = strings.NewReplacer("\r", "", "\n", "", "\t", "", " ", "").Replace(data)
	}
	if n := len(data) % 4; n != 0 && !strings.HasSuffix(data, "=") { // unpadded
		data += strings.Repeat("=", 4-n)
	}
	_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
	return data, err
}
