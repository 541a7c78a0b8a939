package inventory_test

import (
	"encoding/json"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// TestKubernetesNodeStates has Nodes become ready, cordoned and protected.
func TestKubernetesNodeStates(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	var made struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(s.Do("GET", "/api/v1/nodes/a", "", nil), &made); err != nil || made.Metadata.UID == "" {
		t.Fatalf("no UID: %v", err)
	}
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: s.Kubeconfig(t.TempDir(), kubeapi.Admin), Protect: "storage in (osd, mon),!spare"})
	is := func(state string) func(*routing.Inventory) bool {
		return func(i *routing.Inventory) bool {
			return i.Synced && len(i.Nodes) == 1 && stateOf(i.Nodes[0]) == state && i.Nodes[0].UID == made.Metadata.UID
		}
	}
	patch := func(text string) { s.Do("PATCH", "/api/v1/nodes/a", "application/merge-patch+json", text) }
	w.until("new", is("NotReady "))
	heartbeat(s, "a", 0)
	w.until("ready", is(""))
	for i := range 30 {
		heartbeat(s, "a", i)
	}
	patch(`{"metadata":{"labels":{"other":"x"}}}`)
	w.quiet("heartbeats", 500*time.Millisecond)
	patch(`{"spec":{"unschedulable":true},"metadata":{"labels":{"storage":"osd"}}}`)
	w.until("cordoned, protected", is("Cordoned Protected "))
	patch(`{"spec":{"unschedulable":null},"metadata":{"labels":{"spare":""}}}`)
	w.until("neither", is(""))
	s.Do("PATCH", "/api/v1/nodes/a/status", "application/strategic-merge-patch+json", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)
	w.until("away", is("NotReady "))
}

func stateOf(n routing.Node) string {
	text := ""
	if n.NotReady {
		text += "NotReady "
	}
	if n.Cordoned {
		text += "Cordoned "
	}
	if n.Protected {
		text += "Protected "
	}
	return text
}
