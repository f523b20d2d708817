package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/host"
)

type unit string

type place struct {
	City string `json:"city" jsonschema_description:"name of a city"`
	Zip  *int   `json:"zip,omitempty"`
}

type lookup struct {
	Place place    `json:"place"`
	Unit  unit     `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit,description=of the answer"`
	Days  int      `json:"days" jsonschema:"minimum=1,maximum=7"`
	Tags  []string `json:"tags,omitempty"`
	Skip  func()   `json:"-"`
}

// The schema says what encoding/json takes: names, what is optional, texts, enums.
func TestToolSchema(t *testing.T) {
	d := host.Tool("weather", "The weather", func(context.Context, lookup) (string, error) { return "", nil })
	want := `{
		"type": "object", "required": ["place", "days"],
		"properties": {
			"place": {
				"type": "object", "required": ["city"],
				"properties": {"city": {"type": "string", "description": "name of a city"}, "zip": {"type": "integer"}}
			},
			"unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "of the answer"},
			"days": {"type": "integer", "minimum": 1, "maximum": 7},
			"tags": {"type": "array", "items": {"type": "string"}}
		}}`
	if diff := cmp.Diff(asAny(t, want), asAny(t, string(d.Schema))); diff != "" {
		t.Errorf("%s\n%s", d.Schema, diff)
	}
	if d.Name != "weather" || d.Description != "The weather" {
		t.Errorf("%+v", d)
	}
}

func asAny(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

type tree struct {
	Name string  `json:"name"`
	Kids []*tree `json:"kids,omitempty"`
}

// A type that holds itself needs references; the root stands unfolded.
func TestToolSchemaOfATree(t *testing.T) {
	d := host.Tool("plant", "", func(context.Context, tree) (string, error) { return "", nil })
	var s struct {
		Type       string
		Properties map[string]any
		Defs       map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(d.Schema, &s); err != nil || s.Type != "object" || len(s.Properties) != 2 || len(s.Defs) == 0 {
		t.Fatalf("%s: %v", d.Schema, err)
	}
}

func TestToolRefusesTypesWithoutASchema(t *testing.T) {
	for name, make := range map[string]func(){
		"a string": func() { host.Tool("x", "", func(context.Context, string) (string, error) { return "", nil }) },
		"a channel": func() {
			host.Tool("x", "", func(context.Context, struct{ C chan int }) (string, error) { return "", nil })
		},
		"a func inside a list": func() {
			host.Tool("x", "", func(context.Context, struct{ F []func() }) (string, error) { return "", nil })
		},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(p.(string), "the tool x") {
					t.Errorf("%s: %v", name, p)
				}
			}()
			make()
		}()
	}
}

func TestToolResults(t *testing.T) {
	type out struct {
		Sum  int    `json:"sum"`
		Note string `json:"note"`
	}
	run := func(v any) host.Result {
		d := host.Tool("x", "", func(context.Context, struct{}) (any, error) { return v, nil })
		return d.Call(t.Context(), json.RawMessage(`{}`))
	}
	image := host.Image("image/png", []byte("png"))
	for _, c := range []struct {
		out  any
		want host.Result
	}{
		{"text", host.Result{Text: "text"}},
		{out{3, "<a & b>"}, host.Result{Text: `{"sum":3,"note":"<a & b>"}`}},
		{[]int{1, 2}, host.Result{Text: "[1,2]"}},
		{nil, host.Result{}},
		{struct{}{}, host.Result{}},
		{json.RawMessage(`{"a": 1}`), host.Result{Text: `{"a": 1}`}},
		{image, host.Result{Content: []events.Part{{Type: "image", MimeType: "image/png", Data: "cG5n"}}}},
		{
			[]events.Part{events.Text("see"), host.File("a.txt", "text/plain", []byte("x"))},
			host.Result{Content: []events.Part{events.Text("see"), {Type: "file", Name: "a.txt", MimeType: "text/plain", Data: "eA=="}}},
		},
		{host.Result{Text: "own", IsError: true}, host.Result{Text: "own", IsError: true}},
	} {
		if diff := cmp.Diff(c.want, run(c.out)); diff != "" {
			t.Errorf("%v: %s", c.out, diff)
		}
	}
	if r := run(make(chan int)); !r.IsError {
		t.Errorf("%+v", r)
	}
}

func TestToolArguments(t *testing.T) {
	d := host.Tool("x", "", func(_ context.Context, in lookup) (string, error) {
		if in.Days == 0 {
			return "", errors.New("no days")
		}
		return in.Place.City + " " + string(in.Unit), nil
	})
	for args, want := range map[string]host.Result{
		`{"place":{"city":"Oslo"},"unit":"celsius","days":1,"more":true}`: {Text: "Oslo celsius"},
		`{}`:                               {Text: "no days", IsError: true},
		`{"place":{"city":"Oslo"}`:         {Text: "the arguments do not fit: unexpected end of JSON input", IsError: true},
		`{"place":{"city":7},"days":1}`:    {Text: "the arguments do not fit: json: cannot unmarshal number into Go struct field place.place.city of type string", IsError: true},
		`{"place":{"city":"a"},"days":""}`: {Text: "the arguments do not fit: json: cannot unmarshal string into Go struct field lookup.days of type int", IsError: true},
	} {
		got := d.Call(t.Context(), json.RawMessage(args))
		if want.IsError && got.IsError && strings.HasPrefix(want.Text, "the arguments do not fit") && strings.HasPrefix(got.Text, "the arguments do not fit: ") {
			continue // the words are encoding/json's
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
}

// The agent gets the timeout's words at once, also from a tool that does not
// look at its context; the time of a tool is its own, not that of its caller.
func TestToolTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, deaf := range []bool{false, true} {
			d := host.Tool("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
				if deaf {
					time.Sleep(time.Hour)
					return "late", nil
				}
				<-ctx.Done()
				return "", ctx.Err()
			})
			d.Timeout = time.Minute
			began := time.Now()
			r := d.Call(t.Context(), json.RawMessage(`{}`))
			if !r.IsError || r.Text != "the tool did not finish within 1m0s" || time.Since(began) != time.Minute {
				t.Errorf("deaf %v: %+v after %v", deaf, r, time.Since(began))
			}
		}
		time.Sleep(time.Hour) // until the deaf one has ended
	})
}

func TestAliasesAndSensitiveTools(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		for _, name := range []string{"shell", "Bash", "secret", "nothing"} {
			f.say(call(name, name))
			f.say(resolved(name, f.result(name)))
		}
		f.end()
	})
	said := func(s string) func(context.Context, struct{}) (string, error) {
		return func(context.Context, struct{}) (string, error) { return s, nil }
	}
	shell := host.Tool("shell", "runs a command", said("ran"))
	shell.Aliases = []string{"Bash", "secret"}
	secret := host.Tool("secret", "tells", said("told"))
	secret.Sensitive = true
	collect(t, f.client().Stream(t.Context(), withTools(secret, shell)))
	if n := f.seen().request.Metadata.Tools; len(n) != 1 || n[0].Name != "shell" {
		t.Errorf("offered %+v", n)
	}
	for name, want := range map[string]string{"shell": "ran", "Bash": "ran", "secret": "ran", "nothing": `there is no tool "nothing"`} {
		if r := f.seen().results[name]; len(r) != 1 || r[0].Result != want || r[0].IsError != (name == "nothing") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What a tool lacks is said before anything is sent.
func TestBadTools(t *testing.T) {
	f := newFake(t, hello)
	ok := host.Tool("a", "", func(context.Context, struct{}) (string, error) { return "", nil })
	unknown, raw := ok, ok
	unknown.RequiresInput = []string{"nope"}
	raw.RequiresInput, raw.Schema = []string{"x"}, nil
	for says, tools := range map[string][]host.ToolDef{
		"no name":        {{Run: ok.Run}},
		"no Run":         {{Name: "x"}},
		"two tools":      {ok, ok},
		`names "nope"`:   {unknown},
		"needs a Schema": {raw},
	} {
		if err := lastError(t, f.client().Stream(t.Context(), withTools(tools...))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if f.seen().posts != 0 {
		t.Errorf("%d runs were started", f.seen().posts)
	}
}
