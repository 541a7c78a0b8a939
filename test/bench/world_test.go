package bench

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
	"netclass.dev/test/netns"
)

// world is one node whose pod0 and node0 lead to a network wide enough for
// thousands of peers, all of which live in one namespace.
type world struct {
	*lab.Node
	lab   *lab.Lab
	crowd *netns.NS
}

// newWorld makes the world for peers 2 to count. Their addresses on pod0 exist
// when present is set.
func newWorld(b *testing.B, count int, present bool) *world {
	b.Helper()
	need.Root(b)
	need.Program(b, "nft")
	l, err := lab.New(b.Context(), lab.Options{Nodes: 1, NoCounters: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	w := &world{Node: l.Node(1), lab: l, crowd: netns.New(b)}
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, link := range []string{lab.PodNet, lab.NodeNet} {
		dev, err := w.Netlink().LinkByName(link)
		check(err)
		check(w.Netlink().LinkDel(dev))
		check(w.NS().Veth(link, w.crowd, link))
		check(w.NS().Up(link))
		check(w.crowd.Up(link))
		for _, f := range routing.Families {
			check(w.NS().Addr(link, peerNet(link, 1, f).String()))
		}
	}
	if present {
		for n := 2; n <= count; n++ {
			check(w.crowd.Addr(lab.PodNet, peerNet(lab.PodNet, n, routing.IPv4).String(), peerNet(lab.PodNet, n, routing.IPv6).String()))
		}
	}
	return w
}

// separate makes the daemons that are started from now on run a copy of the
// programs, so that no other process shares, and pays for, their memory.
func separate(b *testing.B) {
	b.Helper()
	dir := b.TempDir()
	for _, name := range []string{"netclassd", "netclassctl"} {
		program, err := os.ReadFile(lab.Built(name))
		if err != nil {
			b.Fatalf("%v: build it first, with make build", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	b.Setenv("NETCLASS_BIN", dir)
}

// octets of the second byte of each link's IPv4 network, also shown in IPv6.
var octets = map[string]int{lab.PodNet: 48, lab.NodeNet: 46}

// peerNet returns node n's address on a link with its network's length. Node 1
// has the lowest: it dials.
func peerNet(link string, n int, f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(octets[link]), byte(n >> 8), byte(n)}), 16)
	}
	return netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd00:%d::%x", octets[link], n)), 64)
}

// pods returns node n's pod CIDR.
func pods(n int, f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + n>>8), byte(n), 0}), 24)
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:10:128:%x::/64", n))
}

// passive returns the peers 2 to count.
func passive(count int) []Peer {
	var peers []Peer
	for n := 2; n <= count; n++ {
		var p Peer
		for _, f := range routing.Families {
			p.Addr.Set(f, peerNet(lab.PodNet, n, f).Addr())
			p.Prefix.Set(f, pods(n, f))
		}
		peers = append(peers, p)
	}
	return peers
}

// classPaths returns the pod CIDRs of the nodes 2 to count, with their next hops
// on pod0.
func classPaths(count int) map[netip.Prefix]netip.Addr {
	paths := make(map[netip.Prefix]netip.Addr)
	for _, p := range passive(count) {
		for _, f := range routing.Families {
			paths[p.Prefix.Of(f)] = p.Addr.Of(f)
		}
	}
	return paths
}

// config is the seed's configuration for networks of this size, without routers
// to announce to. learn says where the peers' routes come from.
func config(learn routing.Learn) string {
	text := `apiVersion: netclass.dev/v1alpha1
daemon: {onExit: flush}
networks:
  pods: [10.128.0.0/9, "fd00:10::/32"]
  services: [10.96.0.0/16, "fd00:96::/112"]
  nodes: [10.46.0.0/16, "fd00:46::/64"]
  loadBalancers: [10.47.64.0/24, "fd00:47:64::/112"]
classes:
  - {name: pod-pod, link: pod0, traffic: [{from: pods, to: pods}]}
  - {name: world-pod, link: ingress0, traffic: [{from: pods, to: world}, {from: loadBalancers, to: world}]}
  - {name: node-node, link: node0, traffic: [{from: nodes, to: nodes}, {from: nodes, to: pods}]}
  - {name: world-node, link: mgmt0, traffic: [{from: nodes, to: world}]}
tables:
  - name: pods
    id: 47
    rules:
      - {from: pods, priority: {ipv6: 1000, ipv4: 1001}}
      - {from: loadBalancers, priority: {ipv6: 1002, ipv4: 1003}}
    routes:
      connected: [mgmt0, ingress0, pod0, node0]
      own: {link: cilium_host}
      peers: {link: pod0, learn: LEARN, nextHop: link, fallback: {link: node0, nextHop: internalIP}}
      default: {link: ingress0, gateway: {ipv4: 10.47.0.254, ipv6: "fd00:47::fe"}}
    fence: [pods, services, nodes, loadBalancers]
guard: {networks: [pods, nodes]}
cluster:
  nodesFile: nodes.yaml
  addresses: {pod0: {ipv4: {annotation: example.org/pod0-v4}, ipv6: {annotation: example.org/pod0-v6}}}
`
	if learn == routing.LearnBGP {
		text += "bgp: {asn: 64512, timers: {hold: 9s, keepalive: 3s, connectRetry: 2s}, mesh: {link: pod0}}\n"
	}
	return strings.ReplaceAll(text, "LEARN", string(learn))
}

// shift is by how much a node's number on pod0 grows when it moves.
const shift = 30_000

// nodesFile lists the nodes 1 to count, some of which have moved to another
// address on pod0.
func nodesFile(count int, moved ...int) string {
	class := make(map[int]int)
	for _, n := range moved {
		class[n] = shift
	}
	var s strings.Builder
	s.WriteString("nodes:\n")
	for n := 1; n <= count; n++ {
		fmt.Fprintf(&s, `  - name: %s
    podCIDRs: ["%s", "%s"]
    internalIPs: ["%s", "%s"]
    annotations: {example.org/pod0-v4: "%s", example.org/pod0-v6: "%s"}
`, lab.NodeName(n), pods(n, routing.IPv4), pods(n, routing.IPv6),
			peerNet(lab.NodeNet, n, routing.IPv4).Addr(), peerNet(lab.NodeNet, n, routing.IPv6).Addr(),
			peerNet(lab.PodNet, n+class[n], routing.IPv4).Addr(), peerNet(lab.PodNet, n+class[n], routing.IPv6).Addr())
	}
	return s.String()
}
