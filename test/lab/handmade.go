package lab

import (
	"context"
	"fmt"
	"strings"

	"netclass.dev/routing"
)

// StartHandMade sets the node up by hand, as a careful operator would without
// netclass: policy rules that stand for ever, and BIRD, which fills table 47
// with the connected networks, the own pod CIDRs, the peers' from an iBGP mesh
// over pod0, and a default to the upstream router. BIRD empties the table when
// it stops.
func (n *Node) StartHandMade(ctx context.Context) (*BIRD, error) {
	for _, rule := range []string{
		"-6 rule add from fd00:10:244::/48 lookup 47 priority 1000",
		"-4 rule add from 10.244.0.0/16 lookup 47 priority 1001",
		"-6 rule add from fd00:47:64::/112 lookup 47 priority 1002",
		"-4 rule add from 10.47.64.0/24 lookup 47 priority 1003",
	} {
		if _, err := n.Exec(ctx, "ip", strings.Fields(rule)...); err != nil {
			return nil, err
		}
	}
	return n.StartBIRD(n.handMadeConfig())
}

const handMadeCommon = `
log stderr all;
debug protocols { states, events };
router id %[1]s;
protocol device { scan time 2; }
protocol direct {
	ipv4; ipv6;
	interface "mgmt0", "node0", "ingress0", "pod0";
}
protocol kernel kernel4 { ipv4 { import none; export all; }; kernel table 47; scan time 10; }
protocol kernel kernel6 { ipv6 { import none; export all; }; kernel table 47; scan time 10; }
protocol static own4 { ipv4; route %[2]s via "cilium_host"; }
protocol static own6 { ipv6; route %[3]s via "cilium_host"; }
protocol static egress4 { ipv4; route 0.0.0.0/0 via %[4]s; }
protocol static egress6 { ipv6; route ::/0 via %[5]s; }
`

const handMadePeer = `
protocol bgp %[1]s {
	local %[2]s as 64512;
	neighbor %[3]s as 64512;
	hold time 9;
	keepalive time 3;
	connect retry time 2;
	connect delay time 1;
	error wait time 1, 5;
	%[4]s {
		import where net ~ [ %[5]s ];
		export where proto = "%[6]s";
		next hop self;
	};
}
`

func (n *Node) handMadeConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, handMadeCommon, n.Addr(PodNet, routing.IPv4), n.PodCIDR(routing.IPv4), n.PodCIDR(routing.IPv6),
		linkPrefix(Ingress, routerNumber, routing.IPv4).Addr(), linkPrefix(Ingress, routerNumber, routing.IPv6).Addr())
	for peer := 1; peer <= n.lab.opts.Nodes; peer++ {
		if peer == n.Number {
			continue
		}
		for _, f := range routing.Families {
			own := map[routing.Family]string{routing.IPv4: "own4", routing.IPv6: "own6"}[f]
			fmt.Fprintf(&b, handMadePeer, fmt.Sprintf("k8s_%d_%s", peer, f), n.Addr(PodNet, f), linkPrefix(PodNet, peer, f).Addr(),
				f, podCIDR(peer, f), own)
		}
	}
	return b.String()
}
