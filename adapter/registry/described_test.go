package registry_test

import (
	"fmt"
	"slices"
	"testing"

	"innerd/adapter/openapi"
	"innerd/adapter/registry"
)

// TestRoutesAndErrorsAreDescribed compares both with the table of package
// openapi, either way.
func TestRoutesAndErrorsAreDescribed(t *testing.T) {
	routes, faults := []string{"HEAD /agents"}, []string{} // a HEAD is described by its GET
	for _, o := range openapi.Operations() {
		if o.Tag != "agents" {
			continue
		}
		routes = append(routes, o.Method+" "+o.Path)
		for _, f := range o.Faults {
			if f.Status != 401 && f.Status != 403 && f.Status != 429 { // before it is asked
				faults = appendFault(faults, f)
			}
		}
	}
	for _, f := range openapi.Anywhere() {
		faults = appendFault(faults, f)
	}
	for what, lists := range map[string][2][]string{"route": {registry.Routes(), routes}, "error": {registry.Meanings(), faults}} {
		for _, r := range lists[0] {
			if !slices.Contains(lists[1], r) {
				t.Errorf("the %s %q is not in the table of adapter/openapi", what, r)
			}
		}
		for _, r := range lists[1] {
			if !slices.Contains(lists[0], r) {
				t.Errorf("the table of adapter/openapi has the %s %q, and the registry does not", what, r)
			}
		}
	}
}

func appendFault(to []string, f openapi.Fault) []string {
	for _, words := range f.Errors {
		if s := fmt.Sprint(f.Status, " ", f.Type, ": ", words); !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}
