package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

// A drain is seen wherever nodes and classes are.
func TestDrainIsShown(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	own := step(routing.DrainRequest{Node: "k8s-1", Reason: "new disks", By: "uid 0"}, routing.DrainWaiting, routing.DrainNone, "k8s-2 is drained")
	other := step(routing.DrainRequest{Node: "k8s-2", ID: "7"}, routing.DrainGoing, routing.DrainMesh, "withdrawn")
	st.Drain, st.Inventory.Drain = &own, &routing.DrainLease{Holder: "u/7", Status: &other}
	st.Plan.Drained, st.Plan.DrainPhases = []string{"k8s-2", "k8s-3"}, map[string]routing.DrainPhase{"k8s-2": routing.DrainGoing}
	st.Plan.Classes[1].Health = routing.Drained
	st.Inventory.Nodes[1].Cordoned, st.Inventory.Nodes[2].NotReady = true, true
	source := servertest.NewSource(st)
	a := api(t, servertest.Start(t, source))
	phases := func() string {
		t.Helper()
		nodes, err := a.ListNodes(t.Context(), &pb.ListNodesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, n := range nodes.GetNodes() {
			all = append(all, fmt.Sprintf("%s %s%v%v", strings.TrimPrefix(n.GetDrain().GetPhase().String(), "DRAIN_PHASE_"), n.GetDrain().GetId(), n.GetCordoned(), n.GetNotReady()))
		}
		return strings.Join(all, ", ")
	}
	if got, want := phases(), "WAITING falsefalse, DRAINING 7truefalse, DRAINED falsetrue"; got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	source.Publish(func(st *routing.State) { // told by markers alone
		plan, inv := *st.Plan, st.Inventory
		plan.DrainPhases = map[string]routing.DrainPhase{"k8s-2": routing.DrainGoing, "k8s-3": routing.DrainUndoing}
		inv.Drain, st.Plan = nil, &plan
		st.Inventory = inv
	})
	if got, want := phases(), "WAITING falsefalse, DRAINING truefalse, UNDRAINING falsetrue"; got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	source.Publish(func(back *routing.State) { back.Plan, back.Inventory = st.Plan, st.Inventory })
	got, err := a.GetStatus(t.Context(), &pb.GetStatusRequest{})
	if s := got.GetStatus(); err != nil || s.GetDrain().GetMessage() != "k8s-2 is drained" || !slices.Equal(s.GetDrainedNodes(), []string{"k8s-3"}) || !slices.Equal(s.GetDrainingNodes(), []string{"k8s-2"}) || s.GetClassesReady() != 4 {
		t.Errorf("status %v, %v", s, err)
	}
	class, err := a.GetClass(t.Context(), &pb.GetClassRequest{Name: "pod-pod"})
	if err != nil || class.GetClass().GetHealth() != pb.Health_HEALTH_DRAINED {
		t.Errorf("%v, %v", class, err)
	}
	source.Publish(func(st *routing.State) {
		over := own
		over.Progress.Phase, over.Progress.Error = routing.DrainEnded, "it failed half-way"
		st.Drain, st.Inventory.Drain = &over, nil
		plan := *st.Plan
		plan.Drained = nil
		st.Plan = &plan
	})
	if got, want := phases(), "UNSPECIFIED falsefalse, UNSPECIFIED truefalse, UNSPECIFIED falsetrue"; got != want {
		t.Errorf("afterwards: nodes %s, want %s", got, want)
	}
	if got, err := a.GetStatus(t.Context(), &pb.GetStatusRequest{}); err != nil || got.GetStatus().GetDrain().GetError() != "it failed half-way" {
		t.Errorf("afterwards: %v, %v", got.GetStatus().GetDrain(), err)
	}
}

// Imported routes have a kind of their own.
func TestImportedRoute(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	r := st.Plan.Routes[0]
	r.Dst, r.Metric = st.Config.Config.Network("services")[0], routing.MetricImport
	st.Plan.Routes, st.Kernel.Routes = append(st.Plan.Routes, r), append(st.Kernel.Routes, r)
	got, err := api(t, servertest.Start(t, servertest.NewSource(st))).ShowTable(t.Context(), &pb.ShowTableRequest{Table: "pods"})
	if err != nil || !slices.ContainsFunc(got.GetRoutes(), func(r *pb.Route) bool { return r.GetKind() == pb.RouteKind_ROUTE_KIND_IMPORT && r.GetMetric() == 500 }) {
		t.Errorf("%v, %v", got, err)
	}
}
