package migrate

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"testing"

	"netclass.dev/test/kubeapi"
)

// birdPatch finds what the guide has kubectl do to BIRD's DaemonSet.
var birdPatch = regexp.MustCompile(`kubectl -n kube-system patch daemonset bird (?:--type=(json) )?-p '([^']+)'`)

// daemonSet is what matters of one here.
type daemonSet struct {
	Spec struct {
		UpdateStrategy struct{ Type string }
		Template       struct {
			Spec struct {
				Affinity struct {
					NodeAffinity struct {
						Required struct {
							NodeSelectorTerms []struct {
								MatchExpressions []struct {
									Key, Operator string
									Values        []string
								}
							}
						} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
					}
				}
			}
		}
	}
}

const birdDaemonSet = `{
	"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "bird", "namespace": "kube-system"},
	"spec": {"selector": {"matchLabels": {"app": "bird"}}, "template": {
		"metadata": {"labels": {"app": "bird"}},
		"spec": {"hostNetwork": true, "containers": [{"name": "bird", "image": "bird"}]}}}
}`

// TestPatches has a real API server take the guide's patches: the first changes no
// pod, the second keeps BIRD off labelled nodes, the third takes that back.
func TestPatches(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	found := birdPatch.FindAllStringSubmatch(string(text), -1)
	if len(found) != 3 {
		t.Fatalf("%s has %d patches of BIRD's DaemonSet, want 3", guideFile, len(found))
	}
	server := kubeapi.Start(t)
	const path = "/apis/apps/v1/namespaces/kube-system/daemonsets"
	var states []daemonSet
	ask := func(method, path, contentType string, body any) {
		t.Helper()
		status, answer, err := server.Request(kubeapi.Admin, method, path, contentType, body)
		if err != nil || status >= http.StatusBadRequest {
			t.Fatalf("%s: %d %v %s", method, status, err, answer)
		}
		var d daemonSet
		if err := json.Unmarshal(answer, &d); err != nil {
			t.Fatal(err)
		}
		states = append(states, d)
	}
	ask("POST", path, "", birdDaemonSet)
	for _, m := range found {
		kind := "application/strategic-merge-patch+json"
		if m[1] == "json" {
			kind = "application/json-patch+json"
		}
		ask("PATCH", path+"/bird", kind, m[2])
	}
	was, onDelete, labelled, undone := states[0].Spec, states[1].Spec, states[2].Spec, states[3].Spec
	if was.UpdateStrategy.Type != "RollingUpdate" || onDelete.UpdateStrategy.Type != "OnDelete" || !reflect.DeepEqual(onDelete.Template, was.Template) {
		t.Errorf("after the first patch: %+v", onDelete)
	}
	terms := labelled.Template.Spec.Affinity.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 {
		t.Fatalf("after the second patch: %+v", labelled)
	}
	if e := terms[0].MatchExpressions[0]; e.Key != "netclass.dev/bird" || e.Operator != "NotIn" || !reflect.DeepEqual(e.Values, []string{"off"}) || labelled.UpdateStrategy.Type != "OnDelete" {
		t.Errorf("after the second patch: %+v", labelled)
	}
	if !reflect.DeepEqual(undone, onDelete) {
		t.Errorf("after the third patch: %+v, want %+v", undone, onDelete)
	}
}
