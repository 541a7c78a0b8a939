package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"netclass.dev/routing"
)

// TestNotes: a node's own pod CIDRs say to which routers it announces: those whose
// session is up, and that are to be told of something in that family.
func TestNotes(t *testing.T) {
	four, six := routing.SessionKey{Peer: "udm", Family: routing.IPv4}, routing.SessionKey{Peer: "udm", Family: routing.IPv6}
	says := routing.NoteCommunity(64512, routing.NoteRouters)
	drains := routing.NoteCommunity(64512, routing.NoteDrains)
	to := func(k routing.SessionKey) string { return routing.NoteCommunity(64512, routing.NoteRouter(k)) }
	both := []string{says, to(four), to(six)}
	if routing.NoteRouter(six) < routing.NoteRouter(four) {
		both[1], both[2] = both[2], both[1]
	}
	up := func(k routing.SessionKey) routing.Peering {
		return routing.Peering{Key: k, RouterID: netip.MustParseAddr("10.47.0.254"), Synced: true}
	}
	for name, tc := range map[string]struct {
		do   func(w *world)
		want []string
	}{
		"no session":    {func(*world) {}, []string{says}},
		"session down":  {func(w *world) { w.Peerings = append(w.Peerings, routing.Peering{Key: four}) }, []string{says}},
		"one family":    {func(w *world) { w.Peerings = append(w.Peerings, up(four)) }, []string{says, to(four)}},
		"both":          {func(w *world) { w.Peerings = append(w.Peerings, up(four), up(six)) }, both},
		"nothing to it": {func(w *world) { w.Peerings = append(w.Peerings, up(four)); w.Draining.Step = routing.DrainUpstream }, []string{says}},
		"marked":        {func(w *world) { w.Draining = routing.Draining{Step: routing.DrainClaim, Marker: true} }, []string{says}},
		"cordoned": {func(w *world) {
			w.Config.Drain.FollowCordon = true
			w.Inventory.Node(w.Node).Cordoned = true
		}, []string{says, drains}},
		"cordoned, not followed": {func(w *world) { w.Inventory.Node(w.Node).Cordoned = true }, []string{says}},
		"cordoned and overridden": {func(w *world) {
			w.Config.Drain.FollowCordon, w.Draining.Overridden = true, true
			w.Inventory.Node(w.Node).Cordoned = true
		}, []string{says}},
		"no router": {func(w *world) { w.Config.BGP.Upstreams = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := seed()
			w.settle()
			tc.do(w)
			found := 0
			for _, o := range w.make().Announce {
				if o.To != "" {
					continue
				}
				want := tc.want
				if found++; o.Prefix.IsSingleIP() {
					want = []string{"65535:65282", routing.NoteCommunity(64512, routing.NoteDraining)}
				}
				if !slices.Equal(o.Communities, want) {
					t.Errorf("%s is announced with %q, want %q", o.Prefix, o.Communities, want)
				}
			}
			if found < 2 {
				t.Errorf("%d announcements to the mesh", found)
			}
		})
	}
}
