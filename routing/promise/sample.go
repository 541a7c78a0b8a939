package promise

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// source is where a packet comes from.
type source struct {
	what string     // "pod of k8s-1"
	src  netip.Addr // zero: none chosen yet
	iif  string     // empty: made by the node itself
	mark uint32
}

// target is where a packet goes. Large clusters have many.
type target struct {
	what string // "pod of "
	peer string // the node that has it, which ends its name; empty: none
	addr netip.Addr
}

func (t *target) name() string { return t.what + t.peer }

// pod returns the node's own pod as a source, or why there is none.
func (v *View) pod(f routing.Family) (source, string) {
	if v.self == nil {
		return source{}, "this node is not known yet"
	}
	cidrs := ofFamily(v.self.PodCIDRs, f)
	if len(cidrs) == 0 {
		return source{}, "this node has no " + f.String() + " pod CIDR"
	}
	s := source{what: "pod of " + v.Node, src: v.host(cidrs[0])}
	for i := range v.Config.Tables {
		if o := v.Config.Tables[i].Routes.Own; o != nil && o.Link != "" {
			s.iif = o.Link
			break
		}
	}
	if s.iif == "" {
		// Without a link of the CNI's there is one for each pod.
		for i := range v.Kernel.Routes {
			r := &v.Kernel.Routes[i]
			if r.Table == routing.MainID && r.Type == routing.Unicast && r.Dst.IsSingleIP() && !r.Via.IsValid() && within(cidrs, r.Dst.Addr()) && !v.own[r.Dst.Addr()] {
				s.src, s.iif = r.Dst.Addr(), r.Link
				break
			}
		}
	}
	if s.iif == "" {
		if r := v.fib.Lookup(fib.Flow{Dst: s.src}, fib.Stack); r.Action == fib.Forward && r.Route.Dst.Bits() > 0 && !r.Route.Via.IsValid() {
			s.iif = r.Route.Link
		}
	}
	if s.iif == "" || v.links[s.iif] == nil {
		return source{}, "no link leads to this node's pods"
	}
	return s, ""
}

// source returns a source in a named network, or why there is none: this node's
// own address in it, else a pod, or a pod that answers for an address of it.
func (v *View) source(network string, f routing.Family) (source, string) {
	prefixes := v.network(network, f)
	if v.self != nil {
		for _, c := range ofFamily(v.self.PodCIDRs, f) {
			if slices.ContainsFunc(prefixes, c.Overlaps) {
				return v.pod(f)
			}
		}
		for _, a := range v.addresses(v.self) {
			if within(prefixes, a) {
				return v.local(a), ""
			}
		}
	}
	for i := range v.Kernel.Links {
		for _, a := range v.Kernel.Links[i].Addrs {
			if within(prefixes, a.Prefix.Addr()) {
				return v.local(a.Prefix.Addr()), ""
			}
		}
	}
	if v.inhabits(prefixes) {
		return source{}, "this node has no " + f.String() + " address in " + network
	}
	pod, why := v.pod(f)
	if why != "" {
		return source{}, why
	}
	return source{what: "an address of " + network, src: v.host(prefixes[0]), iif: pod.iif}, ""
}

// local is a packet of this node from an address of its own. One that it does
// not have at the moment, because a link is down, cannot be asked for.
func (v *View) local(a netip.Addr) source {
	if !v.own[a] {
		return source{what: "this node"}
	}
	return source{what: "this node", src: a}
}

// targets lists destinations in a named network of one family: the pods and
// addresses of peers, or where no node has any of it, one address of it.
func (v *View) targets(network string, f routing.Family) (targets []*target, why string) {
	if network == routing.World {
		a, ok := v.world(f)
		if !ok {
			return nil, "every sample of the world is in a network of the cluster"
		}
		return []*target{{what: "the world", addr: a}}, ""
	}
	if v.imports(network) {
		return v.importTargets(network, f), ""
	}
	prefixes := v.network(network, f)
	targets = v.among(prefixes)
	known := len(targets) > 0
	switch targets = slices.DeleteFunc(targets, func(t *target) bool { return t.peer == v.Node }); {
	case len(targets) > 0:
		return targets, ""
	case known:
		return nil, "no other node has an address in " + network
	}
	return []*target{{what: "an address of " + network, addr: v.host(prefixes[0])}}, ""
}

// place is a pod or an address of a node, with what is the node's there.
type place struct {
	target
	prefix netip.Prefix
}

// findPlaces lists the pods and addresses of all nodes, this one's too.
func (v *View) findPlaces() {
	for _, f := range routing.Families {
		v.places.Set(f, make([]place, 0, 3*len(v.Inventory.Nodes))) // as a rule
	}
	for i := range v.Inventory.Nodes {
		n := &v.Inventory.Nodes[i]
		add := func(what string, a netip.Addr, p netip.Prefix) {
			f := routing.FamilyOf(a)
			v.places.Set(f, append(v.places.Of(f), place{target{what, n.Name, a}, p}))
		}
		for _, c := range n.PodCIDRs {
			add("pod of ", v.host(c), c)
		}
		for _, a := range v.addresses(n) {
			add("node ", a, netip.PrefixFrom(a, a.BitLen()))
		}
	}
}

// among lists the pods and addresses of nodes in prefixes of one family.
func (v *View) among(prefixes []netip.Prefix) []*target {
	var all []*target
	if len(prefixes) > 0 {
		places := v.places.Of(routing.FamilyOf(prefixes[0].Addr()))
		for i := range places {
			if p := &places[i]; slices.ContainsFunc(prefixes, p.prefix.Overlaps) {
				all = append(all, &p.target)
			}
		}
	}
	return all
}

// inhabits reports whether a node has something in prefixes of one family.
func (v *View) inhabits(prefixes []netip.Prefix) bool {
	return len(prefixes) > 0 && slices.ContainsFunc(v.places.Of(routing.FamilyOf(prefixes[0].Addr())), func(p place) bool {
		return slices.ContainsFunc(prefixes, p.prefix.Overlaps)
	})
}

// world returns an address of the world: in no network of the cluster, and on no
// link.
func (v *View) world(f routing.Family) (netip.Addr, bool) {
	for _, a := range routing.WorldSamples {
		if routing.FamilyOf(a) == f && v.outside(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// outside reports whether an address belongs to the world: it is in no named
// network, and in none that a link of this node or of a class is in.
func (v *View) outside(a netip.Addr) bool {
	for i := range v.Config.Networks {
		if within(v.Config.Networks[i].Prefixes, a) {
			return false
		}
	}
	return !v.onLink(a) && v.nodes[a] == ""
}

// onLink reports whether an address is in a network that a link of this node or of
// a class is in.
func (v *View) onLink(a netip.Addr) bool {
	for i := range v.Kernel.Links {
		for _, l := range v.Kernel.Links[i].Addrs {
			if l.Prefix.Contains(a) {
				return true
			}
		}
	}
	for _, networks := range v.Plan.Links {
		if within(networks, a) {
			return true
		}
	}
	return false
}

// host returns an address in a prefix that stands for a host: not the network's
// own or the broadcast address, and none of this node.
func (v *View) host(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr()
	for range 6 {
		if next := a.Next(); p.Contains(next) {
			a = next
		}
	}
	for range 16 {
		if next := a.Next(); v.own[a] && p.Contains(next) {
			a = next
		}
	}
	return a
}

// stray returns an address of a prefix that no route as narrow as the prefix
// leads to, as far as one is found: the worst case for a packet to the network.
func (v *View) stray(p netip.Prefix, from source) netip.Addr {
	best := v.host(p)
	for k := range uint64(64) {
		a := scatter(p, k)
		if !p.Contains(a) || v.own[a] || v.nodes[a] != "" || v.gateways[hopOf(a, "")] || v.others[hopOf(a, "")] {
			continue
		}
		r := v.fib.Lookup(fib.Flow{Dst: a, Src: from.src, IIF: from.iif, Mark: from.mark}, fib.Stack)
		if r.Action == fib.Local {
			continue // the broadcast address
		}
		best = a
		if r.Action != fib.Forward || r.Route.Dst.Bits() < p.Bits() {
			break
		}
	}
	return best
}

// scatter returns the k-th of addresses that lie about a prefix without any
// order, always the same.
func scatter(p netip.Prefix, k uint64) netip.Addr {
	x := (k + 1) * 0x9e3779b97f4a7c15 // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	var random [16]byte
	binary.BigEndian.PutUint64(random[:], x)
	binary.BigEndian.PutUint64(random[8:], x*0x2545f4914f6cdd1d)
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		keep := min(max(p.Bits()-8*i, 0), 8)
		b[i] |= random[16-len(b)+i] & (0xff >> keep)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
