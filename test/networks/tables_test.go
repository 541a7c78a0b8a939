package networks

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/netns"
)

// Services that each node translates as kube-proxy does: to the pod of k8s-2,
// and to a second pod on k8s-1.
var (
	remoteService = routing.PerFamily[string]{IPv4: "10.96.0.10", IPv6: "fd00:10:96::10"}
	localService  = routing.PerFamily[string]{IPv4: "10.96.0.11", IPv6: "fd00:10:96::11"}
)

// TestTwoTables runs the seed's older design, with peers in a table of their own
// and exceptions as rules, on nodes of the API: each packet goes where the rules
// say.
func TestTwoTables(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for _, n := range c.Nodes {
		c.create(n, object(n))
	}
	c.run(example(t, "seed/config-two-tables.yaml", "nodesFile: nodes.yaml", c.source()))
	c.within(patience, "classes apart", func() error { return c.Separated(c.Nodes...) })

	c.healthy()
	one, two := c.Node(1), c.Node(2)
	second := c.secondPod(one)
	for _, f := range routing.Families {
		rules := c.ip(one, map[routing.Family]string{routing.IPv4: "-4", routing.IPv6: "-6"}[f]+" rule")
		for _, want := range map[routing.Family][]string{
			routing.IPv4: {"981:\tfrom 10.244.0.0/16 to 10.244.0.0/16 lookup 48", "991:\tfrom all to 10.0.0.0/8 lookup main", "1001:\tfrom 10.244.0.0/16 lookup 47"},
			routing.IPv6: {"980:\tfrom fd00:10:244::/48 to fd00:10:244::/48 lookup 48", "990:\tfrom all to fd00::/8 lookup main", "1000:\tfrom fd00:10:244::/48 lookup 47"},
		}[f] {
			if !strings.Contains(rules, want) {
				t.Errorf("no rule %q in\n%s", want, rules)
			}
		}
		c.goes(one, two.PodAddr(f), lab.PodNet)            // 980: a peer's pod
		c.goes(one, second.Of(f), secondLink)              // nothing in 48, then main: a pod on its own node
		c.goes(one, two.Addr(lab.NodeNet, f), lab.NodeNet) // 990: a node
		c.goes(one, lab.WorldAddr.Of(f), lab.Ingress)      // 1000: the world
	}

	translate(c, one, second)
	before, err := one.Counts()
	c.must(err)
	for _, f := range routing.Families {
		c.ping(one.Pod, second.Of(f).String(), two.PodAddr(f).String(), remoteService.Of(f), localService.Of(f), lab.WorldAddr.Of(f).String())
		c.ping(one.Pod, one.Addr(lab.NodeNet, f).String(), one.Addr(lab.PodNet, f).String(), two.Addr(lab.NodeNet, f).String())
		c.ping(one.Host, remoteService.Of(f), localService.Of(f)) // the node itself
	}
	after, err := one.Counts()
	c.must(err)
	sent := after.Since(before)
	// Three requests each and family, to the pod and to the service before it.
	if n := sent.Out(lab.PodNet, lab.ZonePod, lab.ZonePod); n < 12 {
		t.Errorf("pods' packets on pod0: %d, want 12", n)
	}
	for _, link := range []string{lab.Mgmt, lab.NodeNet, lab.Ingress} {
		if n := sent.Out(link, lab.ZonePod, lab.ZonePod); n > 0 {
			t.Errorf("%d packets between pods left by %s", n, link)
		}
	}
	if n := sent.Out(lab.Mgmt, lab.ZonePod, lab.ZoneWorld); n > 0 {
		t.Errorf("%d packets of pods for the world left by mgmt0", n)
	}
	c.routerSawNothing()
}

// goes fails the test unless the kernel sends the pod's packets by the link.
func (c *cluster) goes(n *lab.Node, to netip.Addr, link string) {
	c.t.Helper()
	if hop, err := n.FromPod(to); err != nil || hop.Link != link {
		c.t.Errorf("pod to %s leaves by %v, %v, not by %s", to, hop, err, link)
	}
}

// secondLink is the link of a node's second pod.
const secondLink = "lxc2"

// secondPod adds a pod to a node, as a CNI does, with a route in main.
func (c *cluster) secondPod(n *lab.Node) routing.PerFamily[netip.Addr] {
	c.t.Helper()
	pod := netns.New(c.t)
	c.must(n.NS().Veth(secondLink, pod, "eth0"))
	c.must(n.NS().Up(secondLink))
	c.must(pod.Up("eth0"))
	var addrs routing.PerFamily[netip.Addr]
	for _, f := range routing.Families {
		a := n.PodAddr(f).Next()
		addrs.Set(f, a)
		c.must(pod.Addr("eth0", netip.PrefixFrom(a, f.Bits()).String()))
		gateway := map[routing.Family]string{routing.IPv4: "169.254.1.1", routing.IPv6: "fe80::1"}[f]
		c.must(n.NS().Addr(secondLink, fmt.Sprintf("%s/%d", gateway, f.Bits())))
		pod.MustIP(c.t, fmt.Sprintf("route add default via %s dev eth0 onlink", gateway))
		c.ip(n, fmt.Sprintf("route add %s dev %s", a, secondLink))
	}
	return addrs
}

// translate has a node rewrite the services' addresses.
func translate(c *cluster, n *lab.Node, second routing.PerFamily[netip.Addr]) {
	c.t.Helper()
	two := c.Node(2)
	var rules strings.Builder
	for _, f := range routing.Families {
		word := map[routing.Family]string{routing.IPv4: "ip", routing.IPv6: "ip6"}[f]
		fmt.Fprintf(&rules, "%s daddr %s dnat %s to %s\n", word, remoteService.Of(f), word, two.PodAddr(f))
		fmt.Fprintf(&rules, "%s daddr %s dnat %s to %s\n", word, localService.Of(f), word, second.Of(f))
	}
	_, err := n.ExecInput(c.t.Context(), strings.NewReader(fmt.Sprintf(`table inet services {
		chain translate {
			%s
		}
		chain pods {
			type nat hook prerouting priority -100;
			jump translate
		}
		chain node {
			type nat hook output priority -100;
			jump translate
		}
	}`, rules.String())), "nft", "-f", "-")
	c.must(err)
}
