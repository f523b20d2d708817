// Package kubernetes checks the files of deploy/kubernetes against the types of
// the Kubernetes API: an unknown or misplaced field fails.
package kubernetes

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kinds are what the files may hold.
var kinds = map[string]func() any{
	"v1/Secret":                          func() any { return &corev1.Secret{} },
	"v1/Service":                         func() any { return &corev1.Service{} },
	"v1/Pod":                             func() any { return &corev1.Pod{} },
	"v1/PersistentVolumeClaim":           func() any { return &corev1.PersistentVolumeClaim{} },
	"apps/v1/Deployment":                 func() any { return &appsv1.Deployment{} },
	"networking.k8s.io/v1/NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
}

func documents(t *testing.T) map[string][]any {
	t.Helper()
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	out := map[string][]any{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(raw, []byte("\n---\n")) {
			var meta metav1.TypeMeta
			if err := yaml.Unmarshal(doc, &meta); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			make := kinds[meta.APIVersion+"/"+meta.Kind]
			if make == nil {
				t.Fatalf("%s: %s %s is not known here", file, meta.APIVersion, meta.Kind)
			}
			object := make()
			if err := yaml.UnmarshalStrict(doc, object); err != nil {
				t.Errorf("%s: %s: %v", file, meta.Kind, err)
			}
			name := filepath.Base(file)
			out[name] = append(out[name], object)
		}
	}
	return out
}

// pods are all pod specs of the files.
func pods(docs map[string][]any) map[string]corev1.PodSpec {
	out := map[string]corev1.PodSpec{}
	for name, objects := range docs {
		for _, o := range objects {
			switch o := o.(type) {
			case *corev1.Pod:
				out[name] = o.Spec
			case *appsv1.Deployment:
				out[name] = o.Spec.Template.Spec
			}
		}
	}
	return out
}

// Each innerd has its probes, its port, its limits, no right that it does not
// need, and a place for everything that it writes.
func TestManifests(t *testing.T) {
	docs := documents(t)
	found := pods(docs)
	if len(found) != 3 {
		t.Errorf("%d pods", len(found))
	}
	for name, pod := range found {
		at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "innerd" })
		if at < 0 {
			t.Errorf("%s: no container innerd", name)
			continue
		}
		c := pod.Containers[at]
		s := c.SecurityContext
		switch {
		case c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/health" || c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/ready":
			t.Errorf("%s: probes", name)
		case len(c.Ports) != 1 || c.Ports[0].ContainerPort != 18100:
			t.Errorf("%s: ports %v", name, c.Ports)
		case c.Resources.Limits.Memory().IsZero():
			t.Errorf("%s: no memory limit", name)
		case s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || len(s.Capabilities.Add) != 4 || s.SeccompProfile == nil:
			t.Errorf("%s: %+v", name, s)
		case pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken:
			t.Errorf("%s: agents get the token of a service account", name)
		}
		for _, path := range []string{"/var/lib/innerd", "/var/lib/innerd-agents", "/workspace", "/tmp"} {
			if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path }) {
				t.Errorf("%s: %s cannot be written", name, path)
			}
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s: there is no volume %s", name, m.Name)
			}
		}
	}
}

// Only hosts reach an adapter, and its agents reach no private network.
func TestNetworkPolicy(t *testing.T) {
	p, ok := documents(t)["networkpolicy.yaml"][0].(*networkingv1.NetworkPolicy)
	if !ok || len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) != 1 || len(p.Spec.Ingress[0].From) != 1 {
		t.Fatalf("%+v", p)
	}
	for _, rule := range p.Spec.Egress {
		for _, to := range rule.To {
			if to.IPBlock != nil && len(to.IPBlock.Except) < 4 {
				t.Errorf("%+v", to.IPBlock)
			}
		}
	}
}
