package networks

import (
	"fmt"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// startBIRD starts BIRD on the first node as Calico's does it: sessions between
// InternalIPs, sourced there, on which the lower address waits for the higher one
// to call (or in the second test does not); add-path and graceful restart; the node's blocks as blackholes that are
// announced, and nothing that lies within them.
func (c *calico) startBIRD() {
	c.t.Helper()
	n := c.Node(1)
	bird, err := n.StartBIRD(c.birdConfig())
	c.must(err)
	c.bird = bird
	// IPIP's BIRD puts peers' blocks over the tunnel; with VXLAN that is Felix's.
	for peer := 2; peer <= len(c.Nodes); peer++ {
		for _, f := range c.families {
			c.ip(n, fmt.Sprintf("route add %s via %s dev %s onlink", blockOf(peer, 0, f), c.hop(peer, f), tunnel))
		}
	}
}

// birdConfig is BIRD's configuration, with further IPv4 prefixes that it announces.
func (c *calico) birdConfig(more ...string) string {
	var config strings.Builder
	n := c.Node(1)
	passive := "passive on;"
	if c.byTunnel {
		passive = ""
	}
	fmt.Fprintf(&config, "log stderr all;\nrouter id %s;\nprotocol device { scan time 2; }\n", n.Addr(uplink, routing.IPv4))
	for _, f := range c.families {
		blocks := fmt.Sprintf("\troute %s blackhole;\n", blockOf(1, 0, f))
		accept := fmt.Sprintf("\tif net = %s then accept;\n", blockOf(1, 0, f))
		if f == routing.IPv4 {
			for _, prefix := range more {
				blocks += fmt.Sprintf("\troute %s blackhole;\n", prefix)
				accept += fmt.Sprintf("\tif net = %s then accept;\n", prefix)
			}
		}
		fmt.Fprintf(&config, `
filter to_peers_%[1]s {
%[3]s	if net ~ %[2]s then reject;
	reject;
}
filter to_kernel_%[1]s {
	if source = RTS_STATIC then accept;
	reject;
}
protocol kernel kernel_%[1]s {
	learn;
	persist;
	scan time 2;
	graceful restart;
	%[1]s { import all; export filter to_kernel_%[1]s; };
}
protocol direct direct_%[1]s {
	interface -"cali*", "*";
	%[1]s;
}
protocol static static_%[1]s {
	%[1]s;
%[4]s}
`, f, blockOf(1, 0, f), accept, blocks)
		for peer := 2; peer <= len(c.Nodes); peer++ {
			fmt.Fprintf(&config, `
protocol bgp Mesh_%[4]d_%[1]s {
	description "Connection to BGP peer";
	local %[2]s as 64512;
	neighbor %[3]s as 64512;
	multihop;
	source address %[2]s;
	%[5]s
	graceful restart;
	connect delay time 2;
	connect retry time 5;
	error wait time 5, 30;
	%[1]s { gateway recursive; add paths on; import all; export filter to_peers_%[1]s; };
}
`, f, n.Addr(uplink, f), c.Node(peer).Addr(uplink, f), peer, passive)
		}
	}
	return config.String()
}

// birdHas wants BIRD to have a route of a node's, or not.
func (c *calico) birdHas(peer, number int, f routing.Family, has bool) error {
	block := blockOf(peer, number, f).String()
	out, err := c.bird.Ctl(c.t.Context(), "show", "route", "protocol", fmt.Sprintf("Mesh_%d_%s", peer, f))
	if err != nil {
		return err
	}
	if strings.Contains(out, block+" ") != has {
		return fmt.Errorf("BIRD has %s of %s: %v, want %v\n%s", block, lab.NodeName(peer), !has, has, out)
	}
	return nil
}
