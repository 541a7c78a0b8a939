package packaging

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"netclass.dev/test/kubeapi"
)

// resource is where the API server has objects of a kind.
var resource = map[string]string{
	"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/%/serviceaccounts", "ConfigMap": "/api/v1/namespaces/%/configmaps",
	"Pod": "/api/v1/namespaces/%/pods", "DaemonSet": "/apis/apps/v1/namespaces/%/daemonsets",
	"ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/%/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%/rolebindings",
	"Lease": "/apis/coordination.k8s.io/v1/namespaces/%/leases",
}

// object is what of an object says where it is.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	text     string
}

// parse returns the objects of a YAML text with several documents.
func parse(t *testing.T, text string) (list []object) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := object{text: document}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			list = append(list, o)
		}
	}
	return list
}

// apply has the API server apply an object, or only say whether it would. A key
// that it does not know is an error.
func apply(t *testing.T, api *kubeapi.Server, o object, really bool) {
	t.Helper()
	path, known := resource[o.Kind]
	if !known {
		t.Fatalf("where are objects of the kind %s?", o.Kind)
	}
	query := "?fieldManager=test&force=true&fieldValidation=Strict"
	if !really {
		query += "&dryRun=All"
	}
	path = strings.ReplaceAll(path, "%", o.Metadata.Namespace) + "/" + o.Metadata.Name + query
	if status, answer, err := api.Request(kubeapi.Admin, "PATCH", path, "application/apply-patch+yaml", o.text); err != nil || status/100 != 2 {
		t.Errorf("%s %s: %v, status %d: %s", o.Kind, o.Metadata.Name, err, status, answer)
	}
}

// TestManifests: the API server takes what the kustomizations make, and the pods
// that come of it, in a namespace that holds pods to what its labels say.
func TestManifests(t *testing.T) {
	api := kubeapi.Start(t)
	for _, folder := range []string{"packaging/kubernetes", seedOverlay} {
		t.Run(folder, func(t *testing.T) {
			text := render(t, folder)
			list := parse(t, text)
			for _, o := range list {
				if o.Kind == "Namespace" || o.Kind == "ServiceAccount" {
					apply(t, api, o, true) // the others are refused without
				}
			}
			for _, o := range list {
				apply(t, api, o, false)
			}
			kept(t, list)
			apply(t, api, podOf(t, text), false)
		})
	}
	t.Run("debug pod", func(t *testing.T) {
		// A controller makes it in each namespace.
		apply(t, api, parse(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: netclass}}`)[0], true)
		for _, o := range parse(t, text(t, "packaging/talos/debug-pod.yaml")) {
			apply(t, api, o, false)
		}
	})
	t.Run("publish", func(t *testing.T) {
		for _, o := range parse(t, text(t, "packaging/kubernetes/rbac-publish.yaml")) {
			apply(t, api, o, false)
		}
	})
}

// kept holds what is rendered against rbac.yaml: its objects are all there, in
// their own namespaces.
func kept(t *testing.T, rendered []object) {
	t.Helper()
	name := func(o object) string { return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name }
	var names []string
	for _, o := range rendered {
		names = append(names, name(o))
	}
	for _, o := range parse(t, text(t, "packaging/kubernetes/rbac.yaml")) {
		if !slices.Contains(names, name(o)) {
			t.Errorf("%s of rbac.yaml is not in %v", name(o), names)
		}
	}
}

// podOf returns a pod as the DaemonSet makes it.
func podOf(t *testing.T, rendered string) object {
	t.Helper()
	d := read(t, rendered).daemonSet
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": d.Spec.Template.Spec,
		"metadata": map[string]any{"name": "netclassd-x", "namespace": d.Namespace, "labels": d.Spec.Template.Labels},
	})
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))[0]
}

// TestOverlay: what the seed's cluster needs is in it.
func TestOverlay(t *testing.T) {
	o := read(t, render(t, seedOverlay))
	spec := o.daemonSet.Spec.Template.Spec
	seed := text(t, "examples/seed/config.yaml")
	want := strings.Replace(seed, "kubernetes: {kubeconfig: /etc/netclassd/kubeconfig}", "kubernetes: {} # the rights of its service account", 1)
	if want == seed || o.config.Data["config.yaml"] != want {
		t.Errorf("the configuration is not the seed's:\n%s", o.config.Data["config.yaml"])
	}
	// A change of the configuration is a change of the pods.
	if name := spec.Volumes[0].ConfigMap.Name; name != o.config.Name || !strings.HasPrefix(name, "netclassd-") {
		t.Errorf("the pods have the ConfigMap %s of %s", name, o.config.Name)
	}
	if image := spec.Containers[0].Image; image != "registry.example.org/netclassd:v0.1.0" {
		t.Errorf("image %s", image)
	}
	if u := o.daemonSet.Spec.UpdateStrategy; u.Type != "RollingUpdate" || u.RollingUpdate.MaxUnavailable.IntValue() != 1 {
		t.Errorf("update strategy %+v", u)
	}
	if spec.PriorityClassName != "system-node-critical" || len(spec.Tolerations) != 1 || spec.Tolerations[0].Operator != "Exists" || spec.Tolerations[0].Key != "" {
		t.Errorf("%s, %+v", spec.PriorityClassName, spec.Tolerations)
	}
}

// TestProbes: what makes a roll-out of the DaemonSet stop at a node that it makes worse.
func TestProbes(t *testing.T) {
	for _, folder := range []string{"packaging/kubernetes", seedOverlay} {
		p := &pod{objects: read(t, render(t, folder))}
		want := map[string]string{"startup probe": "--live", "liveness probe": "--live", "readiness probe": "--ready"}
		for name, probe := range p.probes() {
			if probe == nil || probe.Exec == nil || !slices.Equal(probe.Exec.Command, []string{"/usr/local/bin/netclassctl", "health", want[name]}) {
				t.Errorf("%s: %s: %+v", folder, name, probe)
			}
		}
		d := p.objects.daemonSet.Spec
		// A router that is not spoken to is missed after 10 s, and that then shows here.
		r := d.Template.Spec.Containers[0].ReadinessProbe
		if d.MinReadySeconds < 10+r.PeriodSeconds*(r.FailureThreshold+1) {
			t.Errorf("%s: available after %d s of being ready, unready after %d times %d s", folder, d.MinReadySeconds, r.FailureThreshold, r.PeriodSeconds)
		}
		if u := d.UpdateStrategy; u.Type != "RollingUpdate" || u.RollingUpdate.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s: update strategy %+v", folder, u)
		}
	}
}

// text returns a file of the project.
func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(repository(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
