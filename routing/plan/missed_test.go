package plan_test

import (
	"fmt"
	"testing"

	"netclass.dev/routing"
)

// TestUnseparatedPeers: a class that is shared names the peers, and why.
func TestUnseparatedPeers(t *testing.T) {
	for _, test := range []struct {
		name string
		bend func(*world)
		want string
	}{
		{
			"sessions down", func(w *world) {
				for _, f := range routing.Families {
					*w.peering("k8s-2", f) = routing.Peering{Key: w.peering("k8s-2", f).Key, Synced: true, Why: "its session is down (cease)"}
				}
			},
			"2 of 4 pod CIDRs of peers are not reached over pod0: k8s-2 (its session is down (cease))",
		},
		{
			"refused, and said nothing", func(w *world) {
				w.peering("k8s-2", routing.IPv4).Paths[0].NextHop = addr("10.48.0.9")
				w.peering("k8s-3", routing.IPv6).Paths = nil
			},
			"2 of 4 pod CIDRs of peers are not reached over pod0: k8s-2 (10.244.2.0/24 is refused: next hop 10.48.0.9 is not the peer's address 10.48.0.2), k8s-3 (it has not announced fd00:10:244:3::/64)",
		},
		{
			"no address", func(w *world) {
				w.Peerings, w.Config.Tables[0].Routes.Peers.Learn = nil, routing.LearnNodes
				delete(w.node("k8s-2").Annotations, "net.renner.uno/pod0-v4")
			},
			"1 of 4 pod CIDRs of peers are not reached over pod0: k8s-2 (node k8s-2 has no annotation net.renner.uno/pod0-v4)",
		},
		{
			"many", func(w *world) {
				for i := range 4 {
					w.Inventory.Nodes = append(w.Inventory.Nodes, routing.Node{Name: fmt.Sprintf("x%d", i), PodCIDRs: prefixes(fmt.Sprintf("10.244.10%d.0/24", i))})
				}
			},
			"4 of 8 pod CIDRs of peers are not reached over pod0: x0 (node x0 has no annotation net.renner.uno/pod0-v4), x1 (node x1 has no annotation net.renner.uno/pod0-v4), x2 (node x2 has no annotation net.renner.uno/pod0-v4) and 1 more",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := seed()
			test.bend(w)
			if c := class(t, w.make(), "pod-pod"); c.Health != routing.Shared || c.Reason != test.want {
				t.Errorf("class is %s:\n%s, want\n%s", c.Health, c.Reason, test.want)
			}
		})
	}
}
