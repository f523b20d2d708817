package backendtest_test

import (
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
)

func TestCapabilitiesAgreeWithTheTable(t *testing.T) {
	all := backends.Capabilities{
		Resume: true, Reasoning: true, Tools: true, Permissions: true, Questions: true, Images: true, Schema: true, Steer: true, Compact: true,
	}
	deaf := all
	deaf.Questions = false
	for name, test := range map[string]struct {
		can  backends.Capabilities
		rig  backendtest.Rig
		want string
	}{
		"all of it":            {all, backendtest.Rig{}, ""},
		"a reason":             {deaf, backendtest.Rig{Lacks: map[backendtest.Need]string{backendtest.NeedQuestions: "it asks nobody"}}, ""},
		"no reason":            {deaf, backendtest.Rig{}, "no questions, and the rig does not say why"},
		"it can":               {all, backendtest.Rig{Lacks: map[backendtest.Need]string{backendtest.NeedSteer: "it is a tram"}}, "the capabilities say steer, the rig lacks it"},
		"all of it is skipped": {all, backendtest.Rig{Skip: map[string]string{"structured-output": "no"}}, "the rig skips all cases of it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeT{TB: t}
			backendtest.CheckCapabilities(f, test.rig, backendtest.All(), test.can)
			got := strings.Join(f.faults, "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("reported %q, want %q", got, test.want)
			}
		})
	}
}
