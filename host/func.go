package host

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"

	"innerd/events"
)

// Tool makes a tool of a Go function. The schema of its arguments is reflected
// from In, a struct (or a map, or json.RawMessage for any object): names and
// optional fields as encoding/json reads them, texts and enums from tags:
//
//	type lookup struct {
//		City string `json:"city" jsonschema_description:"name of a city"`
//		Unit string `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit"`
//	}
//	host.Tool("weather", "The weather of now", func(ctx context.Context, in lookup) (string, error) { … })
//
// Out may be a string; a Result, events.Part or []events.Part for images and
// files (see Image and File); or anything else, which the agent reads as JSON.
//
// Like regexp.MustCompile it panics where In has no schema: at the start of a
// program, not in a run.
func Tool[In, Out any](name, description string, run func(context.Context, In) (Out, error)) ToolDef {
	schema, err := reflectSchema(reflect.TypeFor[In]())
	if err != nil {
		panic(fmt.Sprintf("host: the tool %s: %v", name, err))
	}
	return ToolDef{
		Name: name, Description: description, Schema: schema,
		Run: func(ctx context.Context, arguments json.RawMessage) (Result, error) {
			var in In
			if err := json.Unmarshal(arguments, &in); err != nil {
				return Result{}, fmt.Errorf("the arguments do not fit: %w", err)
			}
			out, err := run(ctx, in)
			if err != nil {
				return Result{}, err
			}
			return resultOf(out)
		},
	}
}

func resultOf(out any) (Result, error) {
	switch v := out.(type) {
	case Result:
		return v, nil
	case string:
		return Result{Text: v}, nil
	case events.Part:
		return Result{Content: []events.Part{v}}, nil
	case []events.Part:
		return Result{Content: v}, nil
	case json.RawMessage:
		return Result{Text: string(v)}, nil
	case nil, struct{}:
		return Result{}, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // a model reads it, no browser
	if err := enc.Encode(out); err != nil {
		return Result{}, fmt.Errorf("the result is no JSON: %w", err)
	}
	return Result{Text: string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))}, nil
}

// Image makes the part of a result that is an image, like "image/png".
func Image(mimeType string, data []byte) events.Part {
	return events.Part{Type: events.PartImage, MimeType: mimeType, Data: base64.StdEncoding.EncodeToString(data)}
}

// File makes the part of a result that is a file.
func File(name, mimeType string, data []byte) events.Part {
	return events.Part{Type: events.PartFile, Name: name, MimeType: mimeType, Data: base64.StdEncoding.EncodeToString(data)}
}
