package sim

import (
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// passSoFar is what has happened since the daemon last looked at its inputs.
type passSoFar struct {
	refused  map[any]bool            // routes by key, rules
	guardOut map[routing.Family]bool // a guard has been taken out
	disturb  bool                    // the world has changed meanwhile
	built    bool                    // a fence has been put in
	ways     map[fib.Flow]*way
}

// way is where packets of a pod went in the course of a pass.
type way struct {
	first, last string
	lost        string // the change after which they went nowhere, "" for none
}

// newPass is called where the daemon reads its inputs.
func (h *hand) newPass() {
	h.gapless()
	h.alone()
	h.pass = passSoFar{refused: map[any]bool{}, guardOut: map[routing.Family]bool{}, ways: map[fib.Flow]*way{}, disturb: h.stale}
}

// follow notes where packets of pods go, before and after each change.
func (h *hand) follow(op routing.Op, index *fib.FIB) {
	if op.Verb == routing.Add && !op.IsRule() && op.Route.Metric == routing.MetricFence {
		h.pass.built = true // what main carried stops until its way is in
	}
	pod := flows(op.Family())[0]
	for _, dst := range h.w.destinations(op.Family()) {
		pod.Dst = dst
		r := index.Lookup(pod, fib.Stack)
		got := ""
		if r.Action == fib.Forward {
			got = text(r)
		}
		if known := h.pass.ways[pod]; known == nil {
			h.pass.ways[pod] = &way{first: got, last: got}
		} else if known.last = got; got == "" && known.lost == "" {
			known.lost = op.String()
		}
	}
}

// way0 is the first flow that is followed in the family of a change.
func way0(op routing.Op) fib.Flow {
	pod := flows(op.Family())[0]
	pod.Dst = fixed(op.Family())[0]
	return pod
}

// gapless demands of the pass that is over that packets that had a way before it
// and have one after it had one all the time.
func (h *hand) gapless() {
	if h.pass.disturb || h.pass.built || h.dead || h.flush || len(h.pass.refused) > 0 {
		return
	}
	for flow, way := range h.pass.ways {
		same := way.first == way.last || inner(way.first) && inner(way.last)
		if way.first != "" && way.last != "" && way.lost != "" && same {
			h.w.violated(5, "%s goes nowhere after %s, though it goes %s before the pass and %s after it", flowText(flow), way.lost, way.first, way.last)
		}
	}
}

// alone demands of the pass that is over that no default was left beside a fence
// that could not be put in.
func (h *hand) alone() {
	if h.pass.disturb || h.dead || h.flush {
		return
	}
	for r := range h.pass.refused {
		key, is := r.(routing.RouteKey)
		if !is || key.Metric != routing.MetricFence || fenced(h.picture, key.Table, key.Dst) {
			continue
		}
		f := routing.FamilyOf(key.Dst.Addr())
		kept := routing.RouteKey{Table: key.Table, Dst: f.Default(), Metric: routing.MetricPath}
		if hasDefault(h.picture, key.Table, f) && !h.pass.refused[kept] {
			h.w.violated(2, "the default of table %d is left, though the fence of %s could not be put in", key.Table, key.Dst)
		}
	}
}

// inner reports whether a way stays in the cluster.
func inner(way string) bool {
	return !strings.Contains(way, "ingress0") && !strings.Contains(way, "mgmt0")
}
