package plan_test

import (
	"slices"
	"testing"

	"netclass.dev/routing"
)

// marked is the example cluster in which k8s-3 says something with its marker.
func marked(notes routing.Notes) *world {
	w := seed()
	id := addr("10.48.0.3")
	for _, f := range routing.Families {
		pg := w.peering("k8s-3", f)
		pg.RouterID = id
		pg.Paths = append(pg.Paths, routing.Path{Prefix: routing.DrainMarker(id, f), NextHop: pg.Paths[0].NextHop, NoAdvertise: true, Notes: notes})
	}
	return w
}

// TestOthersDrainPhase: another node is shown as drained once it says so itself, or where
// it never says how far it is; it counts as drained for what is safe all along.
func TestOthersDrainPhase(t *testing.T) {
	away := func(w *world) {
		for _, f := range routing.Families {
			pg := w.peering("k8s-3", f)
			*pg = routing.Peering{Key: pg.Key}
		}
	}
	said := func(phase routing.DrainPhase) func(w *world) {
		return func(w *world) { w.Inventory.Drain.Status.Progress.Phase = phase }
	}
	for _, tc := range []struct {
		name  string
		w     *world
		bend  func(w *world)
		want  routing.DrainPhase
		class string
	}{
		{"marker alone, of an older one", marked(""), nil, routing.DrainDone, "drained elsewhere: k8s-3"},
		{"marker: draining", marked("2"), nil, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"marker: undraining", marked("0 3"), nil, routing.DrainUndoing, "draining elsewhere: k8s-3"},
		{"marker: one family knows of the end", marked("2"), func(w *world) { w.peering("k8s-3", routing.IPv4).Paths[1].Notes = "" }, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"marker: the other does", marked("2"), func(w *world) { w.peering("k8s-3", routing.IPv6).Paths[1].Notes = "" }, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"marker: both do", marked("2"), func(w *world) {
			for _, f := range routing.Families {
				w.peering("k8s-3", f).Paths[1].Notes = ""
			}
		}, routing.DrainDone, "drained elsewhere: k8s-3"},
		{"its session ends while it drains", marked("2"), away, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"its session ends once it is drained", marked(""), away, routing.DrainDone, "drained elsewhere: k8s-3"},
		{"our restart, the nodes not read", marked("2"), func(w *world) { away(w); w.Inventory = &routing.Inventory{} }, routing.DrainGoing, ""},
		{"lease: draining", leased(routing.DrainPaths), nil, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"lease: drained", leased(routing.DrainPaths), said(routing.DrainDone), routing.DrainDone, "drained elsewhere: k8s-3"},
		{"lease: undraining", leased(routing.DrainPaths), said(routing.DrainUndoing), routing.DrainUndoing, "draining elsewhere: k8s-3"},
		{"lease: rolling back", leased(routing.DrainPaths), said(routing.DrainBack), routing.DrainBack, "draining elsewhere: k8s-3"},
		{"lease: an answer in that place, draining", leased(routing.DrainPaths), func(w *world) { w.Inventory.Drain.Status = nil }, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"lease: an answer in that place, drained", bent(leased(routing.DrainPaths), said(routing.DrainDone)), func(w *world) { w.Inventory.Drain.Status = nil }, routing.DrainDone, "drained elsewhere: k8s-3"},
		{"lease and marker, not yet the one", bent(marked(""), func(w *world) {
			l := leased(routing.DrainPaths)
			w.node("k8s-3").UID, w.Inventory.Drain = "u3", l.Inventory.Drain
		}), nil, routing.DrainGoing, "draining elsewhere: k8s-3"},
		{"lease and marker, not yet the other", bent(marked("2"), func(w *world) {
			l := leased(routing.DrainPaths)
			w.node("k8s-3").UID, w.Inventory.Drain = "u3", l.Inventory.Drain
			said(routing.DrainDone)(w)
		}), nil, routing.DrainGoing, "draining elsewhere: k8s-3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.w.settle(); tc.bend != nil {
				tc.bend(tc.w)
			}
			p := tc.w.make()
			if !slices.Equal(p.Drained, []string{"k8s-3"}) {
				t.Errorf("drained: %v", p.Drained)
			}
			if got := p.DrainPhase("k8s-3"); got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
			if c := class(t, p, "world-pod"); c.Reason != tc.class && len(tc.w.Inventory.Nodes) > 0 {
				t.Errorf("world-pod is %s: %s", c.Health, c.Reason)
			}
		})
	}
	// A lock whose holder has said nothing yet.
	w := leased(routing.DrainClaim)
	w.Inventory.Drain.Status = nil
	if got := w.make().DrainPhase("k8s-3"); got != routing.DrainGoing {
		t.Errorf("a holder that says nothing is %s", got)
	}
}
