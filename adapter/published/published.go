// Package published is the documents of the HTTP API as the server gives them
// away: made from the Go types by package openapi when those change, never at
// run time. docs/ has the same documents for people to read.
package published

import (
	"crypto/sha256"
	_ "embed" // the documents
	"encoding/base64"
	"sync"
)

// Document is JSON that is the same for every caller.
type Document struct {
	Body string
	tag  func() string
}

// ETag names the document's version.
func (d Document) ETag() string { return d.tag() }

//go:embed openapi.json
var openAPI string

//go:embed events.schema.json
var events string

// OpenAPI describes the HTTP API.
var OpenAPI = document(openAPI)

// Events is the JSON Schema of the events of runs.
var Events = document(events)

func document(body string) Document {
	return Document{body, sync.OnceValue(func() string {
		sum := sha256.Sum256([]byte(body))
		return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	})}
}
