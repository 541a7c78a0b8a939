package sim

import (
	"slices"

	"netclass.dev/routing"
)

// drains takes the node out, or back in, by any number of steps.
func (w *world) drains() {
	w.draining = routing.Draining{
		Step:       routing.DrainStep(w.pick(int(routing.DrainPaths) + 1)),
		KeepEgress: w.pick(4) == 0,
		Marker:     w.pick(2) == 0,
		Classes:    [][]string{nil, nil, {"pod-pod"}, {"world-pod"}}[w.pick(4)],
	}
	w.note("drain of %v: %s, egress kept: %v, marker: %v", w.draining.Classes, w.draining.Step, w.draining.KeepEgress, w.draining.Marker)
	w.order()
	w.look()
}

// undrains takes the node back in at once.
func (w *world) undrains() {
	w.note("the drain is taken back")
	w.draining = routing.Draining{}
	w.order()
	w.look()
}

// order tells the daemon how far the node is to be taken out, as whoever remembers
// it does at each start.
func (w *world) order() {
	if w.engine != nil {
		w.engine.SetDrain(w.draining, nil)
	}
}

// drained reports whether the drain has come to a step and takes a link out.
func (w *world) drained(link string, step routing.DrainStep) bool {
	links, _ := w.config.DrainLinks(w.draining.Classes)
	return w.draining.Step >= step && slices.Contains(links, link)
}

// isMarker reports whether an announcement says that the node is drained.
func isMarker(a routing.Announcement) bool { return slices.Contains(a.Communities, "65535:65282") }

// checkDrain demands that what a drain takes out is out: announcements at once,
// routes as soon as anything may be deleted.
func (w *world) checkDrain(k *routing.Kernel) {
	if order := w.speaker.order; order != nil && !w.speaker.dead {
		for _, a := range order.Announce {
			marker := isMarker(a)
			switch {
			case marker && !w.draining.Marker || marker && w.draining.Step == routing.DrainNone:
				w.violated(8, "%s says that the node is drained, which it is not", a.Prefix)
			case a.To != "" && w.drained("ingress0", routing.DrainUpstream):
				w.violated(8, "%s is announced to %s in spite of a drain", a.Prefix, a.To)
			case a.To != "" && w.drained("ingress0", routing.DrainShutdown) != slices.Contains(a.Communities, "65535:0"):
				w.violated(8, "%s is announced with the communities %v, the drain being at %s", a.Prefix, a.Communities, w.draining.Step)
			case a.To == "" && !marker && w.drained("pod0", routing.DrainMesh):
				w.violated(8, "%s is announced to the mesh in spite of a drain", a.Prefix)
			}
		}
	}
	if !w.listed.Synced || !w.hand.seen {
		return // nothing is deleted
	}
	for _, r := range k.Routes {
		switch {
		case r.Protocol != ours || r.Table == strayTable || r.Table == routing.MainID:
		case (r.Dst.Bits() == 0 || r.Metric == routing.MetricImport) && w.drained("ingress0", routing.DrainDefault) && !w.draining.KeepEgress:
			w.violated(8, "%s stays in spite of a drain", r)
		case w.classPath(r) && w.drained("pod0", routing.DrainPaths) && slices.ContainsFunc(k.Routes, func(o routing.Route) bool {
			return o.Protocol == ours && o.Table == r.Table && o.Dst == r.Dst && o.Metric == routing.MetricFallback
		}):
			w.violated(8, "%s stays in spite of a drain and of its fallback", r)
		}
	}
}
