package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// clusterSets are the networks whose packets are the cluster's, fenced or not.
var clusterSets = []string{"pods", "nodes", "services", "loadBalancers"}

// inside names what a prefix overlaps of that whose packets must stay between the
// nodes: pods, nodes and the networks of class links without a gateway; "" when
// nothing.
func (m *maker) inside(p netip.Prefix) string {
	for _, name := range clusterSets[:2] {
		if what := m.overlapped(name, p); what != "" {
			return what
		}
	}
	for i := range m.cfg.Classes {
		if link := m.cfg.Classes[i].Link; m.gatewayless(link) {
			if q, ok := overlaps(m.networks[link], p); ok {
				return q.String() + ", a network of " + link
			}
		}
	}
	if node, ok := m.claims.other(none, p); ok {
		return "a pod CIDR of node " + m.nodes[node].Name
	}
	if node, ok := m.nodeIn(p); ok {
		return "an InternalIP of node " + node
	}
	return ""
}

// unannounced names what a configured network overlaps, so that no router is told of
// it: pods, nodes, the networks of class links without a gateway, the whole network of
// any class link, and the pods of this node. What comes in for an announced prefix and
// is taken by nobody here is stopped, which would cut these off. Other nodes' CIDRs do
// not count: one that is mistaken must not take the Services from every node.
func (m *maker) unannounced(p netip.Prefix) string {
	for _, name := range clusterSets[:2] {
		if what := m.overlapped(name, p); what != "" {
			return what
		}
	}
	for i := range m.cfg.Classes {
		link := m.cfg.Classes[i].Link
		if q, ok := overlaps(m.networks[link], p); ok && (p.Bits() <= q.Bits() || m.gatewayless(link)) {
			return q.String() + ", a network of " + link
		}
	}
	if q, ok := overlaps(m.ownCIDRs(routing.FamilyOf(p.Addr())), p); ok {
		return q.String() + ", pods of this node"
	}
	return ""
}

// reserved names what a prefix overlaps of that which no router is asked about:
// whatever is fenced or guarded, and each network that a link is connected to; ""
// when nothing.
func (m *maker) reserved(p netip.Prefix) string {
	if what := m.inside(p); what != "" {
		return what
	}
	names := slices.Clone(clusterSets[2:])
	for i := range m.cfg.Tables {
		names = append(names, m.cfg.Tables[i].Fence...)
	}
	if m.cfg.Guard != nil {
		names = append(names, m.cfg.Guard.Networks...)
	}
	for _, name := range names {
		if what := m.overlapped(name, p); what != "" {
			return what
		}
	}
	for i := range m.cfg.Classes { // also while the link is down
		link := m.cfg.Classes[i].Link
		if q, ok := overlaps(m.networks[link], p); ok {
			return q.String() + ", a network of " + link
		}
	}
	for i := range m.in.Kernel.Links {
		l := &m.in.Kernel.Links[i]
		if q, ok := overlaps(connected(l, routing.FamilyOf(p.Addr())), p); ok {
			return q.String() + ", a network of " + l.Name
		}
	}
	return ""
}

func (m *maker) overlapped(network string, p netip.Prefix) string {
	if q, ok := overlaps(m.cfg.Network(network), p); ok {
		return q.String() + " of " + network
	}
	return ""
}

func overlaps(ps []netip.Prefix, p netip.Prefix) (netip.Prefix, bool) {
	for _, q := range ps {
		if q.Overlaps(p) {
			return q, true
		}
	}
	return netip.Prefix{}, false
}

// host is an address of a node.
type host struct {
	addr netip.Addr
	node string
}

// nodeIn returns a node with an InternalIP inside a prefix.
func (m *maker) nodeIn(p netip.Prefix) (string, bool) {
	if m.hosts == nil {
		m.hosts = make([]host, 0, 2*len(m.nodes))
		for i := range m.nodes {
			for _, a := range m.nodes[i].InternalIPs {
				m.hosts = append(m.hosts, host{a, m.nodes[i].Name})
			}
		}
		slices.SortStableFunc(m.hosts, func(a, b host) int { return a.addr.Compare(b.addr) })
	}
	at, _ := slices.BinarySearchFunc(m.hosts, p.Addr(), func(h host, a netip.Addr) int { return h.addr.Compare(a) })
	if at < len(m.hosts) && p.Contains(m.hosts[at].addr) {
		return m.hosts[at].node, true
	}
	return "", false
}
