package servertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"netclass.dev/routing"
)

// Drained returns the healthy node k8s-1 after it has been drained but for its
// egress, as k8s-2 is by force; k8s-3 is cordoned and waits for that to end.
func Drained() *routing.State {
	st := Healthy()
	st.Drain = &routing.DrainStatus{
		Request: routing.DrainRequest{
			ID: "5f0c", Node: "k8s-1", Reason: "new firmware", Classes: []string{"pod-pod"}, KeepEgress: true, Force: true, By: "uid 0 (netclassctl, pid 812)",
		},
		Progress: routing.DrainProgress{Phase: routing.DrainDone, Step: routing.DrainPaths, Message: "no class path is left, and the links are quiet"},
		Since:    Now.Add(-3 * time.Hour), Lock: "lease kube-system/netclass-drain",
	}
	st.Plan.Drained = []string{"k8s-2"}
	waiting := routing.DrainStatus{
		Request:  routing.DrainRequest{ID: "77aa", Node: "k8s-3", Cordon: true},
		Progress: routing.DrainProgress{Phase: routing.DrainWaiting, Message: "k8s-1 is drained: undrain it first"}, Since: Now.Add(-time.Minute),
	}
	st.Inventory.Drain = &routing.DrainLease{Holder: "u1/5f0c", Request: &waiting.Request, Status: &waiting}
	st.Inventory.Nodes[1].NotReady, st.Inventory.Nodes[2].Cordoned = true, true
	for i := range st.Plan.Classes {
		if c := &st.Plan.Classes[i]; c.Class.Name == "pod-pod" {
			c.Health, c.Reason, c.Separated, c.Fallback = routing.Drained, "drained 3h ago: new firmware", 0, 4
		}
	}
	st.Plan.Tables[0].Health, st.Plan.Tables[0].Reason = routing.Drained, "the class paths are out: this node is drained"
	return st
}

// Draining answers Drain and Undrain as a daemon does: k8s-1 is drained step by step,
// k8s-2 must not be, k8s-3 fails half-way, and k8s-1 has been undrained before.
func Draining(source *Source) {
	source.OnDrain = func(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error {
		req.By, req.ID = "uid 0 (netclassctl, pid 812)", "5f0c"
		st := routing.DrainStatus{Request: req, Since: Now, Lock: "lease kube-system/netclass-drain"}
		say := func(phase routing.DrainPhase, step routing.DrainStep, message string) {
			st.Progress.Phase, st.Progress.Step, st.Progress.Message = phase, step, message
			_ = report(st)
			st.Progress.Costs = nil
		}
		if req.Node == "k8s-2" && !req.Force {
			return &routing.Refused{Reasons: []string{
				"k8s-3 is drained since 2026-03-01T11:00:00Z (by uid 0 (netclassctl, pid 98)): undrain it first, or take the lock from it by --force --holder k8s-3",
				"k8s-2 is the last that announces 10.47.64.10: let another node have a ready endpoint of default/web first",
			}}
		}
		st.Progress.Costs = []string{
			"pod egress moves from ingress0 to mgmt0: masqueraded connections through it are reset",
			"flows to load balancers' addresses may be hashed to other nodes by the router",
		}
		if validateOnly {
			return report(st)
		}
		say(routing.DrainGoing, routing.DrainClaim, "lease kube-system/netclass-drain is ours")
		say(routing.DrainGoing, routing.DrainShutdown, "waiting 10s for routers to prefer other nodes")
		if req.Node == "k8s-3" {
			failed := errors.New("the speaker has not confirmed it within 5m0s")
			st.Progress.Error = failed.Error()
			say(routing.DrainBack, routing.DrainClaim, "routers are told what they were told before")
			say(routing.DrainEnded, routing.DrainNone, "everything is as before")
			return fmt.Errorf("it failed and everything has been put back: %w", failed)
		}
		say(routing.DrainGoing, routing.DrainUpstream, "2 sessions have sent their withdrawals")
		say(routing.DrainGoing, routing.DrainMesh, "4 sessions have sent their withdrawals")
		say(routing.DrainGoing, routing.DrainDefault, "")
		say(routing.DrainGoing, routing.DrainPaths, "waiting until the links are quiet")
		st.Progress.Rates = []routing.LinkRate{{Link: "ingress0", Received: 0.4, Sent: 0}, {Link: "pod0", Received: 1820, Sent: 12.25}}
		say(routing.DrainGoing, routing.DrainPaths, "waiting until the links are quiet: watched for 2s of 5s")
		st.Progress.Rates = nil
		say(routing.DrainDone, routing.DrainPaths, "quiet for 5s: ingress0 at most 10.0 packets per second, pod0 at most 12.7 packets per second")
		return nil
	}
	source.OnUndrain = func(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
		req.By, req.ID = "uid 0 (netclassctl, pid 812)", "5f0c"
		st := routing.DrainStatus{Request: req, Since: Now.Add(-2 * time.Minute), Progress: routing.DrainProgress{Phase: routing.DrainEnded}}
		if req.Node != "k8s-1" {
			for _, step := range []routing.DrainStep{routing.DrainPaths, routing.DrainMesh, routing.DrainUpstream} {
				going := st
				going.Progress = routing.DrainProgress{Phase: routing.DrainUndoing, Step: step, Message: "put back"}
				_ = report(going)
			}
		}
		return report(st)
	}
}
