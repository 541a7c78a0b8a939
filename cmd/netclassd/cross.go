package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// cross compares a configuration with the nodes that it is about, and returns what
// hardly is as it is meant: each by itself is valid, and other nodes may come.
func cross(c *routing.Config, nodes []routing.Node, self string) []string {
	x := crossing{config: c, nodes: nodes, lacks: map[lack]bool{}}
	x.addresses()
	x.podCIDRs()
	x.announced()
	if self != "" {
		x.self(self)
	}
	return x.found
}

type crossing struct {
	config *routing.Config
	nodes  []routing.Node
	found  []string
	lacks  map[lack]bool // said already
}

// lack is an annotation that a node does not carry.
type lack struct{ node, key string }

func (x *crossing) warn(format string, args ...any) {
	x.found = append(x.found, fmt.Sprintf(format, args...))
}

// addresses looks at InternalIPs, and at the annotations that hold an address.
func (x *crossing) addresses() {
	internal := holders{}
	for i := range x.nodes {
		for _, a := range x.nodes[i].InternalIPs {
			internal.add(x, "InternalIP "+a.String(), x.nodes[i].Name)
		}
	}
	if x.config.Cluster != nil {
		for _, a := range x.config.Cluster.Addresses {
			x.annotated(a.Ref, "cluster.addresses."+a.Link, true)
		}
	}
	for i := range x.config.Tables {
		if d := x.config.Tables[i].Routes.Default; d != nil {
			x.annotated(d.Gateway, "the default of table "+x.config.Tables[i].Name, false)
		}
	}
	if x.config.BGP != nil {
		for i := range x.config.BGP.Upstreams {
			u := &x.config.BGP.Upstreams[i]
			x.annotated(u.Address, "upstream "+u.Name, false)
		}
	}
}

// annotated looks at the addresses that the nodes say by annotation; each is a
// node's own if they are to differ.
func (x *crossing) annotated(refs routing.PerFamily[routing.AddressRef], user string, differ bool) {
	for _, f := range routing.Families {
		key := refs.Of(f).Annotation
		if key == "" {
			continue
		}
		own := holders{}
		carried := slices.ContainsFunc(x.nodes, func(n routing.Node) bool { _, ok := n.Annotations[key]; return ok })
		for i := range x.nodes {
			n := &x.nodes[i]
			text, ok := n.Annotations[key]
			if !ok {
				if carried {
					x.lack(n, key, user)
				}
				continue
			}
			a, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil || routing.FamilyOf(a) != f || a.Is4In6() {
				x.warn("node %s: annotation %s is not an %s address: %q", n.Name, key, f, text)
			} else if differ {
				own.add(x, "address "+a.String()+" ("+key+")", n.Name)
			}
		}
		if !carried && len(x.nodes) > 0 {
			x.warn("%s needs the annotation %s, which no node carries%s", user, key, x.annotations())
		}
	}
}

// lack says once that a node has no annotation, which others have.
func (x *crossing) lack(n *routing.Node, key, user string) {
	if l := (lack{n.Name, key}); !x.lacks[l] {
		x.lacks[l] = true
		x.warn("node %s has no annotation %s, which %s needs", n.Name, key, user)
	}
}

// annotations lists some of those that the nodes carry.
func (x *crossing) annotations() string {
	var keys []string
	for i := range x.nodes {
		for key := range x.nodes[i].Annotations {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return ""
	}
	return " (they carry " + several(keys) + ")"
}

// needPodCIDRs reports whether some table leads to pods by the CIDRs of their nodes.
func (x *crossing) needPodCIDRs() bool {
	if c := x.config.Cluster; c == nil || c.PodCIDRs != "node" {
		return false
	}
	return slices.ContainsFunc(x.config.Tables, func(t routing.Table) bool {
		p := t.Routes.Peers
		return t.Routes.Own != nil || p != nil && p.Accept != routing.AcceptWithin
	})
}

// podCIDRs looks for those that share addresses or lie where no class has them.
func (x *crossing) podCIDRs() {
	type claim struct {
		prefix netip.Prefix
		node   string
	}
	var claims []claim
	pods := x.config.Network("pods")
	for i := range x.nodes {
		if len(x.nodes[i].PodCIDRs) == 0 && x.needPodCIDRs() {
			x.warn("node %s has no pod CIDR: nothing would lead to its pods, and its own rules would wait", x.nodes[i].Name)
		}
		for _, p := range x.nodes[i].PodCIDRs {
			claims = append(claims, claim{p, x.nodes[i].Name})
			inside := func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) }
			if len(pods) > 0 && !slices.ContainsFunc(pods, inside) {
				x.warn("node %s: pod CIDR %s is outside the network pods", x.nodes[i].Name, p)
			}
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), a.prefix.Bits()-b.prefix.Bits(), strings.Compare(a.node, b.node))
	})
	for i, widest := 1, 0; i < len(claims); i++ {
		if a, b := claims[widest], claims[i]; !a.prefix.Overlaps(b.prefix) {
			widest = i
		} else if a.node != b.node {
			x.warn("nodes %s and %s: pod CIDRs %s and %s share addresses: the one that has them keeps them, the other is refused", a.node, b.node, a.prefix, b.prefix)
		}
	}
}

// announced looks for pods in the networks that routers are told of.
func (x *crossing) announced() {
	if x.config.BGP == nil {
		return
	}
	for i := range x.config.BGP.Upstreams {
		u := &x.config.BGP.Upstreams[i]
		for _, name := range u.Advertise.Networks {
			for _, p := range x.config.Network(name) {
				at := slices.IndexFunc(x.nodes, func(n routing.Node) bool { return slices.ContainsFunc(n.PodCIDRs, p.Overlaps) })
				if at >= 0 {
					x.warn("upstream %s is told of %s (%s), in which pods of node %s are: what comes in for them and is another node's would be stopped", u.Name, p, name, x.nodes[at].Name)
				}
			}
		}
	}
}

// self looks for what one node needs of itself.
func (x *crossing) self(name string) {
	at := slices.IndexFunc(x.nodes, func(n routing.Node) bool { return n.Name == name })
	if at < 0 {
		var names []string
		for i := range x.nodes {
			names = append(names, x.nodes[i].Name)
		}
		x.warn("node %q is not in the nodes file (there are %s): names are compared exactly", name, several(names))
		return
	}
	n := &x.nodes[at]
	if len(n.PodCIDRs) == 0 && !x.needPodCIDRs() {
		x.warn("node %s has no pod CIDR: its rules would wait", name)
	}
	for _, key := range x.config.Annotations() {
		if _, ok := n.Annotations[key]; !ok {
			x.warn("node %s has no annotation %s", name, key)
		}
	}
}

// holders are the nodes that have what only one should.
type holders map[string]string

func (h holders) add(x *crossing, what, node string) {
	if first, taken := h[what]; taken && first != node {
		x.warn("nodes %s and %s have the same %s", first, node, what)
		return
	}
	h[what] = node
}

// several joins the first few names and counts the others.
func several(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
