package lab

import (
	"fmt"
	"net/netip"

	"netclass.dev/routing"
)

// The links of a node, by the class whose traffic they carry.
const (
	Mgmt    = "mgmt0"    // world and node
	NodeNet = "node0"    // node and node
	Ingress = "ingress0" // world and pod
	PodNet  = "pod0"     // pod and pod
	CNILink = "cilium_host"
)

// ClassLinks lists the links that lead to the switch.
var ClassLinks = [...]string{Mgmt, NodeNet, Ingress, PodNet}

// vlans gives each link's VLAN, which is also the second octet of its networks.
var vlans = map[string]int{Mgmt: 40, NodeNet: 46, Ingress: 47, PodNet: 48}

const (
	maxNodes     = 200 // the last octet, below the router's
	routerNumber = 254 // 10.x.0.254 and fd00:x::fe
	podNumber    = 7   // 10.244.N.7 and fd00:10:244:N::7
)

// The world address behind the router, and the router's own on that link.
var (
	WorldAddr = routing.PerFamily[netip.Addr]{
		IPv4: netip.MustParseAddr("192.0.2.1"), IPv6: netip.MustParseAddr("2001:db8::1"),
	}
	routerWorldAddr = routing.PerFamily[netip.Addr]{
		IPv4: netip.MustParseAddr("192.0.2.254"), IPv6: netip.MustParseAddr("2001:db8::fe"),
	}
)

// Networks of the cluster, as examples/seed names them.
var (
	Pods          = perFamily("10.244.0.0/16", "fd00:10:244::/48")
	Services      = perFamily("10.96.0.0/16", "fd00:10:96::/112")
	Nodes         = perFamily("10.46.0.0/24", "fd00:46::/64")
	LoadBalancers = perFamily("10.47.64.0/24", "fd00:47:64::/112")
)

func perFamily(v4, v6 string) routing.PerFamily[netip.Prefix] {
	return routing.PerFamily[netip.Prefix]{IPv4: netip.MustParsePrefix(v4), IPv6: netip.MustParsePrefix(v6)}
}

// LinkNetwork returns the network of a class link.
func LinkNetwork(link string, f routing.Family) netip.Prefix {
	return linkPrefix(link, 0, f).Masked()
}

// linkPrefix returns the address that host number n has on a link, with the
// network's length: 10.46.0.N/24 or fd00:46::N/64.
func linkPrefix(link string, n int, f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(vlans[link]), 0, byte(n)}), 24)
	}
	a := netip.MustParseAddr(fmt.Sprintf("fd00:%d::%x", vlans[link], n))
	return netip.PrefixFrom(a, 64)
}

// podCIDR returns node n's pod CIDR: 10.244.N.0/24 or fd00:10:244:N::/64.
func podCIDR(n int, f routing.Family) netip.Prefix {
	return netip.PrefixFrom(podAddr(n, 0, f), map[routing.Family]int{routing.IPv4: 24, routing.IPv6: 64}[f])
}

// podAddr returns an address in node n's pod CIDR.
func podAddr(n, host int, f routing.Family) netip.Addr {
	if f == routing.IPv4 {
		return netip.AddrFrom4([4]byte{10, 244, byte(n), byte(host)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%x::%x", n, host))
}
