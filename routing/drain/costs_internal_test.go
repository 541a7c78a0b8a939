package drain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// TestCostsOfSeveralRouters: what two routers are told is counted once, and that none of
// them can send it here is said once, and only where that is so.
func TestCostsOfSeveralRouters(t *testing.T) {
	s := twoNodes(true)
	s.Config.Config.BGP.Upstreams = append(s.Config.Config.BGP.Upstreams, routing.Upstream{Name: "udm2", Link: "ingress0"})
	s.Plan.Announce, s.Peers = nil, s.Peers[:1]
	for _, name := range []string{"udm", "udm2"} {
		for i, prefix := range []string{"10.47.64.0/24", "fd00:47:64::/112"} {
			s.Plan.Announce = append(s.Plan.Announce, routing.Origin{Announcement: routing.Announcement{To: name, Prefix: netip.MustParsePrefix(prefix)}})
			s.Peers = append(s.Peers, routing.PeerStatus{Neighbor: routing.Neighbor{
				Key: routing.SessionKey{Peer: name, Family: routing.Families[i]}, Link: "ingress0", Upstream: true,
			}})
		}
	}
	for _, tc := range []struct {
		up   []int // of udm/ipv4, udm/ipv6, udm2/ipv4, udm2/ipv6
		want string
	}{
		{nil, "this node has no session with udm, udm2 itself: what routers are told of does not come in here now"},
		{[]int{0}, "this node has no ipv6 session with udm, udm2 itself: what routers are told of in ipv6 does not come in here now"},
		{[]int{3}, "this node has no ipv4 session with udm, udm2 itself: what routers are told of in ipv4 does not come in here now"},
		{[]int{0, 3}, ""},
		{[]int{0, 1}, ""},
	} {
		for i := range s.Peers[1:] {
			if s.Peers[1+i].Session.State = routing.Idle; slices.Contains(tc.up, i) {
				s.Peers[1+i].Session.State = routing.Established
			}
		}
		said := costs(s, &routing.DrainRequest{})
		var of []string
		for _, text := range said {
			if strings.Contains(text, " session with ") {
				of = append(of, text)
			}
		}
		if strings.Join(of, "\n") != tc.want {
			t.Errorf("%v: said %q, want %q", tc.up, of, tc.want)
		}
		if text := strings.Join(said, "\n"); !strings.Contains(text, "packets to the 2 prefixes that routers are told of here") {
			t.Errorf("%v: %s", tc.up, text)
		}
	}
}
