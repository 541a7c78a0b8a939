package engine_test

import (
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestNoRouteInMain: the pod CIDRs that the guard keeps this node itself from, as the
// CNI has no route to them, are told of once it has had the time to put them in.
func TestNoRouteInMain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.wait(time.Minute)
		if r.state().Health != routing.Ready {
			t.Fatalf("health %s: %v", r.state().Health, r.state().Conditions)
		}
		cni := routing.Route{Table: routing.MainID, Dst: routePrefix("10.244.0.0/16"), Link: "cilium_host", Protocol: protocolCNI}
		three := routing.Route{Table: routing.MainID, Dst: routePrefix("10.244.3.0/24"), Link: "cilium_host", Protocol: protocolCNI}
		r.kernel.foreign(routing.Add, three)
		r.kernel.foreign(routing.Delete, cni)
		r.engine.LookAndDump()
		r.wait(9 * time.Second)
		if c := r.condition("table/main", ""); c != nil || r.state().Health != routing.Ready {
			t.Errorf("while the CNI may be at it: health %s, %v", r.state().Health, c)
		}
		r.wait(2 * time.Second)
		want := "the CNI has no route to 10.244.2.0/24 in main: this node itself cannot reach these pods, the guard stops it"
		if c := r.condition("table/main", "NoRoute"); c == nil || c.Message != want {
			t.Errorf("condition %v, want %q", c, want)
		}
		r.wantClass("node-node", routing.Waiting, want)
		r.kernel.foreign(routing.Delete, three)
		r.kernel.foreign(routing.Add, cni)
		r.engine.LookAndDump()
		r.wait(time.Second)
		r.wantClass("node-node", routing.Ready, "")
		if c := r.condition("table/main", ""); c != nil {
			t.Errorf("the condition stays: %v", c)
		}
	})
}
