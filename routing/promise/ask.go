package promise

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// Ask turns a question into flows: one in each family that it can be asked in.
//
// As a source, an address or name of this node is a packet that it makes itself;
// an address of its pods arrives by the link of the CNI; any other arrives by
// the link that this node would answer it by. As a destination, pod and node are
// those of the first peer by name, and vip is the first address of a network of
// load balancers.
func (v *View) Ask(q routing.Question) ([]*routing.Explanation, error) {
	families := routing.Families[:]
	if q.Family != 0 {
		families = []routing.Family{q.Family}
	}
	for _, end := range []struct{ field, text string }{{"dst", q.Dst}, {"src", q.Src}} {
		a, err := netip.ParseAddr(end.text)
		if err != nil {
			continue
		}
		if a.Zone() != "" || a.Is4In6() {
			return nil, &routing.BadQuestion{Field: end.field, Problem: "an address without a zone is wanted, IPv4 as such"}
		}
		if families = slices.DeleteFunc(slices.Clone(families), func(f routing.Family) bool { return f != routing.FamilyOf(a) }); len(families) == 0 {
			return nil, &routing.BadQuestion{Field: end.field, Problem: a.String() + " is of another family"}
		}
	}
	if q.In != "" && v.links[q.In] == nil {
		return nil, &routing.BadQuestion{Field: "in", Problem: fmt.Sprintf("there is no link %q", q.In)}
	}
	var list []*routing.Explanation
	var first error
	for _, f := range families {
		e, err := v.ask(q, f)
		if err == nil {
			list = append(list, e)
		} else if first == nil {
			first = err
		}
	}
	if len(list) == 0 {
		return nil, first
	}
	return list, nil
}

func (v *View) ask(q routing.Question, f routing.Family) (*routing.Explanation, error) {
	dst, why := v.destination(q.Dst, f)
	if why != "" {
		return nil, &routing.BadQuestion{Field: "dst", Problem: why}
	}
	src, why := v.origin(q.Src, f)
	if why != "" {
		return nil, &routing.BadQuestion{Field: "src", Problem: why}
	}
	if q.In != "" {
		src.iif = q.In
	}
	if src.iif != "" && !src.src.IsValid() {
		return nil, &routing.BadQuestion{Field: "src", Problem: "a packet that arrives by a link has a source"}
	}
	return &routing.Explanation{
		Flow: routing.Flow{Dst: dst.addr, Src: src.src, IIF: src.iif, Mark: q.Mark},
		Dst:  dst.name(), Src: src.what,
	}, nil
}

// destination resolves a question's destination.
func (v *View) destination(text string, f routing.Family) (target, string) {
	switch text {
	case "":
		return target{}, "is required"
	case routing.SamplePod, routing.SampleNode:
		for _, p := range v.places.Of(f) {
			if p.peer != v.Node && strings.HasPrefix(p.what, text) {
				return p.target, ""
			}
		}
		return target{}, "no other node has an " + f.String() + " address for " + text
	case routing.SampleWorld:
		if a, ok := v.world(f); ok {
			return target{what: "the world", addr: a}, ""
		}
		return target{}, "every sample of the world is in a network of the cluster"
	case routing.SampleVIP:
		if name, p, ok := v.vips(f); ok {
			return target{what: "an address of " + name, addr: v.host(p)}, ""
		}
		return target{}, noVIPs(f)
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return target{what: v.describe(a), addr: a}, ""
	}
	n := v.Inventory.Node(text)
	if n == nil {
		return target{}, unknown(text)
	}
	if a := n.InternalIP(f); a.IsValid() {
		return target{what: "node ", peer: n.Name, addr: a}, ""
	}
	return target{}, "node " + n.Name + " has no " + f.String() + " InternalIP"
}

func noVIPs(f routing.Family) string {
	return "no network of load balancers has " + f.String() + " addresses: name theirs in networks: loadBalancers"
}

func unknown(text string) string {
	return fmt.Sprintf("%q is no address, no node, and none of pod, node, world, vip", text)
}

// origin resolves a question's source.
func (v *View) origin(text string, f routing.Family) (source, string) {
	switch text {
	case "":
		return source{what: "this node"}, ""
	case routing.SamplePod:
		return v.pod(f)
	case routing.SampleNode:
		return v.node(f), ""
	case routing.SampleVIP:
		name, p, ok := v.vips(f)
		if !ok {
			return source{}, noVIPs(f)
		}
		pod, why := v.pod(f)
		return source{what: "an address of " + name, src: v.host(p), iif: pod.iif}, why
	case routing.SampleWorld:
		a, ok := v.world(f)
		if !ok {
			return source{}, "every sample of the world is in a network of the cluster"
		}
		return v.arrival("the world", a)
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return v.arrival(v.describe(a), a)
	}
	n := v.Inventory.Node(text)
	switch {
	case n == nil:
		return source{}, unknown(text)
	case n.Name == v.Node:
		return v.node(f), ""
	}
	if a := n.InternalIP(f); a.IsValid() {
		return v.arrival("node "+n.Name, a)
	}
	return source{}, "node " + n.Name + " has no " + f.String() + " InternalIP"
}

// node is this node with its InternalIP, if it has that now.
func (v *View) node(f routing.Family) source {
	if v.self == nil {
		return source{what: "this node"}
	}
	return v.local(v.self.InternalIP(f))
}

// arrival is a packet from an address, by the link that it would arrive by.
func (v *View) arrival(what string, a netip.Addr) (source, string) {
	f := routing.FamilyOf(a)
	pod, why := v.pod(f)
	switch {
	case v.own[a]:
		return source{what: what, src: a}, ""
	case why == "" && v.self != nil && within(v.self.PodCIDRs, a):
		return source{what: what, src: a, iif: pod.iif}, ""
	}
	if name := v.networkOf(a); name != "" && why == "" && v.importedAs(a) == "" && !v.inhabits(v.network(name, f)) {
		return source{what: what, src: a, iif: pod.iif}, "" // a pod answers for it
	}
	back := fib.Flow{Dst: a}
	if why == "" && (v.podAddress(a) || v.importedAs(a) != "" || v.outside(a) && v.linkOf(routing.World) != "") {
		back.Src, back.IIF = pod.src, pod.iif // it is pods that such packets are for
	}
	r := v.fib.Lookup(back, fib.Stack)
	if r.Action == fib.Forward {
		return source{what: what, src: a, iif: r.Route.Link}, ""
	}
	return source{}, fmt.Sprintf("no link leads to %s: say by --in where it arrives", a)
}

// linkOf returns the link of the first class that carries traffic to a network.
func (v *View) linkOf(network string) string {
	for i := range v.Config.Classes {
		for _, t := range v.Config.Classes[i].Traffic {
			if t.To == network {
				return v.Config.Classes[i].Link
			}
		}
	}
	return ""
}

// networkOf returns the named network that holds an address.
func (v *View) networkOf(a netip.Addr) string {
	for i := range v.Config.Networks {
		if within(v.Config.Networks[i].Prefixes, a) {
			return v.Config.Networks[i].Name
		}
	}
	return ""
}

// vips returns the first network whose addresses nodes answer for without having
// them: one that is announced to a router, or that a class sends to the world
// from, or the one of that name, without any node in it.
func (v *View) vips(f routing.Family) (name string, p netip.Prefix, ok bool) {
	var names []string
	if v.Config.BGP != nil {
		for i := range v.Config.BGP.Upstreams {
			names = append(names, v.Config.BGP.Upstreams[i].Advertise.Networks...)
		}
	}
	for i := range v.Config.Classes {
		for _, t := range v.Config.Classes[i].Traffic {
			if t.To == routing.World {
				names = append(names, t.From)
			}
		}
	}
	for _, name := range append(names, "loadBalancers") {
		if ps := v.network(name, f); len(ps) > 0 && !v.inhabits(ps) {
			return name, ps[0], true
		}
	}
	return "", netip.Prefix{}, false
}

// describe says whose an address is.
func (v *View) describe(a netip.Addr) string {
	if everybody(a) {
		return "several hosts at once"
	}
	for i := range v.Inventory.Nodes {
		if n := &v.Inventory.Nodes[i]; within(n.PodCIDRs, a) {
			return "pod of " + n.Name
		}
	}
	switch name := v.networkOf(a); {
	case v.own[a]:
		return "this node"
	case v.nodes[a] != "":
		return "node " + v.nodes[a]
	case v.gateways[hopOf(a, "")] || v.others[hopOf(a, "")]:
		return "a router"
	case name != "":
		return "an address of " + name
	case v.outside(a):
		return "the world"
	}
	return "an address of a link's network"
}
