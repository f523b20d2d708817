//go:build linux || darwin

package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter"
	"innerd/adapter/openapi"
)

// TestMountsAreDescribed looks for what is mounted in the table of package
// openapi; what the rooms serve there, they compare themselves.
func TestMountsAreDescribed(t *testing.T) {
	mounts := (&server{}).mounts()
	if len(mounts) == 0 {
		t.Fatal("nothing is mounted")
	}
	of := func(path string, m adapter.Mount) bool {
		return path == m.Prefix || strings.HasPrefix(path, m.Prefix+"/")
	}
	for _, m := range mounts {
		found := false
		for _, o := range openapi.Operations() {
			found = found || of(o.Path, m)
		}
		if !found {
			t.Errorf("%s is mounted, and the table in adapter/openapi has nothing of it", m.Prefix)
		}
	}
	for _, o := range openapi.Operations() {
		found := !strings.HasPrefix(o.Tag, "a2a") && o.Tag != "agents"
		for _, m := range mounts {
			found = found || of(o.Path, m)
		}
		if !found {
			t.Errorf("the table has %s %s, and nothing is mounted there", o.Method, o.Path)
		}
	}
}

// TestInitIsDescribed compares the body that is read with the one that the
// table has.
func TestInitIsDescribed(t *testing.T) {
	if diff := cmp.Diff(fields(reflect.TypeFor[lateConfig]()), fields(reflect.TypeFor[openapi.Init]())); diff != "" {
		t.Errorf("POST /init reads (-), adapter/openapi has (+):\n%s", diff)
	}
}

// fields are the JSON names of a struct's fields and the kinds of them, through
// all that it holds.
func fields(t reflect.Type) map[string]string {
	out := map[string]string{}
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, t reflect.Type) {
		switch {
		case t.Kind() == reflect.Map || t.Kind() == reflect.Slice:
			walk(prefix+"[]", t.Elem())
		case t.Kind() == reflect.Struct && t.PkgPath() != "time":
			for i := range t.NumField() {
				name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
				walk(prefix+"."+name, t.Field(i).Type)
			}
		default:
			out[prefix] = t.Kind().String()
		}
	}
	walk("", t)
	return out
}
