package plan_test

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestCopyOfNodes: a node that boots with its source away routes by the copy, on
// whose strength nothing is deleted.
func TestCopyOfNodes(t *testing.T) {
	w := seed()
	want := w.make()
	w.Inventory.Synced, w.Inventory.Stale, w.Inventory.AsOf = false, "connection refused", time.Unix(1_700_000_000, 0)
	got := w.make()
	if len(got.Routes) != len(want.Routes) || len(got.Rules) != len(want.Rules) || len(got.Peers) != len(want.Peers) {
		t.Errorf("%d routes, %d rules, %d sessions; want %d, %d, %d", len(got.Routes), len(got.Rules), len(got.Peers), len(want.Routes), len(want.Rules), len(want.Peers))
	}
	if got.Hold == "" {
		t.Error("it may delete")
	}
	wantSaid(t, got, "3 nodes are known from a copy of 2023-11-14T22:13:20Z (connection refused): nothing is deleted")

	w.settle()
	w.removeNode("k8s-3")
	for _, op := range planOps(w.make(), w) {
		if op.Verb == routing.Delete {
			t.Errorf("deleted: %s", op)
		}
	}
}

// TestNameInOtherCase: names are compared exactly, and the one that is meant is
// named.
func TestNameInOtherCase(t *testing.T) {
	w := seed()
	w.Node = "K8S-1"
	p := w.make()
	if !strings.Contains(said(p), `node "K8S-1" is not in`) || !strings.Contains(said(p), "set `node: k8s-1`") {
		t.Errorf("said: %s", said(p))
	}
	if p.Hold == "" {
		t.Error("it may delete")
	}
}
