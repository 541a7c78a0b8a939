package networks

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// calico is a cluster as Calico makes it: InternalIPs on the link that has the
// default too, blocks of the IPAM, a route for each pod in main, and a tunnel
// between the nodes. The first node still runs Calico's BIRD; the others run
// netclassd.
type calico struct {
	*cluster
	families []routing.Family
	byTunnel bool   // next hops are addresses of tunnels, not InternalIPs
	version  string // of Calico's kind
	config   string
	bird     *lab.BIRD
}

// Calico's names. The tunnel is VXLAN under the name of the IPIP one: kernels
// without IPIP route over it all the same.
const (
	tunnel = "tunl0"
	cali   = "cali1"
	uplink = lab.Mgmt // where the InternalIP and the default are
)

// blockOf returns a block of a node: 192.168.N.0/26 or fd00:192:168:N::/122, and
// further ones by number.
func blockOf(node, number int, f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return netip.PrefixFrom(inBlock(node, number, 0, f), 26)
	}
	return netip.PrefixFrom(inBlock(node, number, 0, f), 122)
}

func inBlock(node, number, host int, f routing.Family) netip.Addr {
	if f == routing.IPv4 {
		return netip.AddrFrom4([4]byte{192, 168, byte(number*10 + node), byte(host)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:192:168:%d::%x", number*10+node, host))
}

// The hosts of a block that are used, and one that is not.
const (
	tunnelHost = 1
	podHost    = 7
	unused     = 33
)

func podOf(node int, f routing.Family) netip.Addr { return inBlock(node, 0, podHost, f) }

// newCalico makes the cluster, with nothing of ours running. Its networks are
// those of the example, over IPIP, or of both families, over VXLAN. IPv4's next hop
// over IPIP is the InternalIP, which IPv6 has no like of: the kernel takes no
// next hop for on-link that it has another way to.
func newCalico(t *testing.T, vxlan bool) *calico {
	t.Helper()
	for _, program := range []string{"ip", "bridge", "bird"} {
		need.Program(t, program)
	}
	c := &calico{cluster: newCluster(t, 3)}
	t.Cleanup(func() {
		if t.Failed() && c.bird != nil {
			out, _ := c.bird.Ctl(context.Background(), "show", "protocols", "all")
			t.Logf("BIRD: %s\n%s", out, c.bird.LogTail(20))
		}
	})
	c.families, c.byTunnel, c.version = routing.Families[:1], vxlan, "crd.projectcalico.org/v1"
	c.config = example(t, "calico.yaml", "link: eth0", "link: "+uplink, "kubernetes: {}", c.source())
	if vxlan {
		c.families, c.version = routing.Families[:], "projectcalico.org/v3"
		c.config = strings.NewReplacer("[192.168.0.0/16]", `[192.168.0.0/16, "fd00:192:168::/48"]`, "nextHop: internalIP", "nextHop: link",
			"podCIDRs: calico", "podCIDRs: calico, addresses: {"+tunnel+": {ipv4: {annotation: "+tunnelKey[routing.IPv4]+"}, ipv6: {annotation: "+tunnelKey[routing.IPv6]+"}}}").Replace(c.config)
	}
	c.kind()
	for n := 1; n <= len(c.Nodes); n++ {
		c.node(n)
		c.cni(n)
	}
	for n := 1; n <= len(c.Nodes); n++ {
		c.tunnel(n)
	}
	c.upstream()
	return c
}

// kind defines Calico's kind, in the version that Calico's own components use or
// in that of its API, where that is all there is.
func (c *calico) kind() {
	group, version, _ := strings.Cut(c.version, "/")
	deleted := "string"
	if version == "v3" {
		deleted = "boolean"
	}
	c.api.Apply(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: blockaffinities.%[1]s}
spec:
  group: %[1]s
  scope: Cluster
  names: {kind: BlockAffinity, listKind: BlockAffinityList, plural: blockaffinities, singular: blockaffinity}
  versions:
    - name: %[2]s
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              type: object
              required: [cidr, deleted, node, state]
              properties: {cidr: {type: string}, deleted: {type: %[3]s}, node: {type: string}, state: {type: string}, type: {type: string}}
`, group, version, deleted))
	c.within(patience, "Calico's kind served", func() error {
		status, body, err := c.api.Request(kubeapi.Admin, "GET", c.blocks(), "", nil)
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		return err
	})
}

// blocks is the path of the affinities.
func (c *calico) blocks() string { return "/apis/" + c.version + "/blockaffinities" }

// node makes the objects of a node. It has a pod CIDR, which Calico's IPAM does
// not use.
func (c *calico) node(number int) {
	n := c.Node(number)
	o := nodeObject{podCIDRs: []string{n.PodCIDR(routing.IPv4).String()}, annotations: map[string]string{}}
	for _, f := range routing.Families {
		o.internalIPs = append(o.internalIPs, n.Addr(uplink, f).String())
		o.annotations[tunnelKey[f]] = inBlock(number, 0, tunnelHost, f).String()
	}
	for _, f := range c.families {
		c.block(number, 0, f, "confirmed", false)
	}
	c.create(n, o)
}

// block makes a node's affinity to a block what Calico's IPAM writes.
func (c *calico) block(node, number int, f routing.Family, state string, deleted bool) {
	text := fmt.Sprint(deleted)
	if strings.HasSuffix(c.version, "/v1") {
		text = fmt.Sprintf("%q", text)
	}
	c.api.Apply(fmt.Sprintf("apiVersion: %s\nkind: BlockAffinity\nmetadata: {name: %s}\nspec: {cidr: %q, node: %s, state: %s, deleted: %s, type: host}\n",
		c.version, blockName(node, number, f), blockOf(node, number, f), lab.NodeName(node), state, text))
}

func (c *calico) dropBlock(node, number int, f routing.Family) {
	c.api.Do("DELETE", c.blocks()+"/"+blockName(node, number, f), "", nil)
}

func blockName(node, number int, f routing.Family) string {
	text := strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(blockOf(node, number, f).String())
	return lab.NodeName(node) + "-" + text
}

// cni replaces a node's pod link by Calico's: no network on it, and a route for
// each address of a pod.
func (c *calico) cni(number int) {
	n := c.Node(number)
	c.ip(n, "link del "+lab.CNILink)
	c.must(n.Netlink().LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: cali}, PeerName: "eth0", PeerNamespace: netlink.NsFd(n.Pod.NS().Fd())}))
	c.ip(n, "link set "+cali+" up")
	c.on(n.Pod, "link set eth0 up")
	c.must(n.Sysctl(map[string]string{"ipv4/conf/" + cali + "/proxy_arp": "1", "ipv4/neigh/" + cali + "/proxy_delay": "0"}))
	c.ip(n, "-6 address add fe80::1/64 dev "+cali+" nodad")
	for _, f := range routing.Families {
		c.addPod(number, podOf(number, f))
	}
	c.on(n.Pod, "route add 169.254.1.1 dev eth0 scope link")
	c.on(n.Pod, "route add default via 169.254.1.1 dev eth0")
	c.on(n.Pod, "-6 route add default via fe80::1 dev eth0")
}

// addPod gives the pod an address, and main the route that leads to it.
func (c *calico) addPod(number int, a netip.Addr) {
	n := c.Node(number)
	host := netip.PrefixFrom(a, a.BitLen())
	if a.Is4() {
		c.on(n.Pod, fmt.Sprintf("address add %s dev eth0", host))
		c.ip(n, fmt.Sprintf("route add %s dev %s scope link", host, cali))
		return
	}
	c.on(n.Pod, fmt.Sprintf("-6 address add %s dev eth0 nodad", host))
	c.ip(n, fmt.Sprintf("-6 route add %s dev %s", host, cali))
}

func (c *calico) removePod(number int, a netip.Addr) {
	n := c.Node(number)
	host := netip.PrefixFrom(a, a.BitLen())
	c.ip(n, fmt.Sprintf("route del %s dev %s", host, cali))
	c.on(n.Pod, fmt.Sprintf("address del %s dev eth0", host))
}

// hop returns a node's address that is the next hop of its blocks.
func (c *calico) hop(node int, f routing.Family) netip.Addr {
	if c.byTunnel {
		return inBlock(node, 0, tunnelHost, f)
	}
	return c.Node(node).Addr(uplink, f)
}

// tunnelKey names the annotations by which Calico tells a tunnel's addresses.
var tunnelKey = map[routing.Family]string{routing.IPv4: "projectcalico.org/IPv4VXLANTunnelAddr", routing.IPv6: "projectcalico.org/IPv6VXLANTunnelAddr"}

// tunnel makes a node's tunnel. It finds its far ends by the next hop, as IPIP
// does: there is an entry for each, made once. It takes
// larger packets than the routes say, so that it is theirs that counts.
func (c *calico) tunnel(number int) {
	n := c.Node(number)
	c.ip(n, "link set "+uplink+" mtu 1600")
	c.on(c.Switch, fmt.Sprintf("link set vlan40.%d mtu 1600", number))
	_, err := n.Exec(c.t.Context(), "ip", strings.Fields(fmt.Sprintf("link add %s address %s type vxlan id 4096 local %s dstport 4789 nolearning",
		tunnel, tunnelMAC(number), n.Addr(uplink, routing.IPv4)))...)
	need.Feature(c.t, "vxlan", err)
	c.ip(n, "link set "+tunnel+" mtu 1500 up")
	for _, f := range routing.Families {
		a := inBlock(number, 0, tunnelHost, f)
		c.must(n.AddAddr(tunnel, netip.PrefixFrom(a, a.BitLen())))
		for peer := range c.Nodes {
			if peer++; peer != number {
				c.ip(n, fmt.Sprintf("neigh add %s lladdr %s dev %s nud permanent", c.hop(peer, f), tunnelMAC(peer), tunnel))
			}
		}
	}
	for peer := range c.Nodes {
		if peer++; peer != number {
			_, err := n.Exec(c.t.Context(), "bridge", strings.Fields(fmt.Sprintf("fdb add %s dev %s dst %s self permanent", tunnelMAC(peer), tunnel, c.Node(peer).Addr(uplink, routing.IPv4)))...)
			c.must(err)
		}
	}
}

func tunnelMAC(node int) string { return fmt.Sprintf("02:00:00:00:00:%02x", node) }

// upstream gives the router a route to each node's blocks, as a router has that
// was told of them, and counts what comes back from the nodes.
func (c *calico) upstream() {
	for n, node := range c.Nodes {
		for _, f := range routing.Families {
			c.on(c.Router.Host, fmt.Sprintf("route add %s via %s", blockOf(n+1, 0, f), node.Addr(uplink, f)))
		}
	}
	for _, f := range routing.Families { // and to an address in no block
		c.on(c.Router.Host, fmt.Sprintf("route add %s via %s", nowhere(f), c.Node(2).Addr(uplink, f)))
	}
	_, err := c.Router.ExecInput(c.t.Context(), strings.NewReader(`
table inet calico {
	counter back4 { }
	counter back6 { }
	chain arrivals {
		type filter hook prerouting priority raw - 1;
		iifname "vlan40" ip daddr 192.168.0.0/16 counter name back4
		iifname "vlan40" ip6 daddr fd00:192:168::/48 counter name back6
	}
}
`), "nft", "-f", "-")
	c.must(err)
}

// nowhere is a pod address in no block.
func nowhere(f routing.Family) netip.Addr { return inBlock(200, 0, 9, f) }

// cameBack counts the packets for pods that the nodes have sent to the router.
func (c *calico) cameBack(f routing.Family) (packets int) {
	c.t.Helper()
	name := map[routing.Family]string{routing.IPv4: "back4", routing.IPv6: "back6"}[f]
	out, err := c.Router.Exec(c.t.Context(), "nft", "list", "counter", "inet", "calico", name)
	c.must(err)
	_, rest, _ := strings.Cut(out, "packets ")
	if _, err := fmt.Sscan(rest, &packets); err != nil {
		c.t.Fatalf("read counter %s: %v\n%s", name, err, out)
	}
	return packets
}

// on runs `ip` on a host that is no node.
func (c *calico) on(h *lab.Host, args string) string {
	c.t.Helper()
	out, err := h.Exec(c.t.Context(), "ip", strings.Fields(args)...)
	c.must(err)
	return out
}
