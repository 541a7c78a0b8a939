// Package promise says what follows from the classes: which flows prove them,
// what an answer of the kernel means for them, and whether a router can come to
// carry what has to stay inside the cluster.
//
// It is pure. Who calls it puts the flows to the kernel and brings the answers.
package promise

import (
	"net/netip"
	"slices"
	"sync"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// Inputs is what a View looks at. None of it may change while the View is used.
type Inputs struct {
	Config    *routing.Config
	Node      string
	Inventory *routing.Inventory
	Kernel    *routing.Kernel
	Plan      *routing.Plan
}

// View is one state of node and cluster, indexed for questions about it.
type View struct {
	Inputs
	self  *routing.Node // nil: not in the inventory
	peers []*routing.Node
	links map[string]*routing.Link
	own   map[netip.Addr]bool   // addresses of this node's links
	nodes map[netip.Addr]string // addresses of nodes, this one's too
	// places are the pods and addresses of nodes.
	places routing.PerFamily[[]place]
	// gateways are the routers that the configuration names, others the next hops
	// of default routes.
	gateways, others map[hop]bool
	inner            []string // networks that classes carry traffic between

	fib      *fib.FIB
	carrier  func() *fib.FIB // of a kernel that ignores routes without carrier
	intended func() *fib.FIB // of the kernel as it is planned
	promises []promised
}

// New indexes the inputs.
func New(in Inputs) *View {
	v := &View{
		Inputs: in,
		self:   in.Inventory.Node(in.Node),
		links:  make(map[string]*routing.Link, len(in.Kernel.Links)),
		own:    map[netip.Addr]bool{}, nodes: make(map[netip.Addr]string, 4*len(in.Inventory.Nodes)),
		gateways: map[hop]bool{}, others: map[hop]bool{},
		fib: fib.New(in.Kernel),
	}
	v.carrier = sync.OnceValue(func() *fib.FIB { return fib.New(in.Kernel, fib.IgnoreLinkDown()) })
	v.intended = sync.OnceValue(func() *fib.FIB { return fib.New(planned(in)) })
	for i := range in.Kernel.Links {
		l := &in.Kernel.Links[i]
		v.links[l.Name] = l
		for _, a := range l.Addrs {
			v.own[a.Prefix.Addr()] = true
		}
	}
	for i := range in.Inventory.Nodes {
		n := &in.Inventory.Nodes[i]
		if n.Name != in.Node {
			v.peers = append(v.peers, n)
		}
		for _, a := range v.addresses(n) {
			v.nodes[a] = n.Name
		}
	}
	v.findPlaces()
	v.findGateways()
	v.inner = v.inside()
	v.promises = v.enumerate()
	return v
}

// mainPriority is where the system's rule for main stands.
const mainPriority = 32766

// planned is the kernel as it would be with what is planned, what is the
// system's own, and nothing that others have put beside it: their rules, and
// their routes in tables of ours.
func planned(in Inputs) *routing.Kernel {
	k := &routing.Kernel{Links: in.Kernel.Links, Routes: make([]routing.Route, 0, len(in.Kernel.Routes))}
	for _, r := range in.Kernel.Rules {
		// CNIs move the rule for local packets; those of main and default stand
		// last, and one before them is somebody's.
		system := r.Table == routing.LocalID || r.Priority >= mainPriority && (r.Table == routing.MainID || r.Table == routing.DefaultID)
		if system && r.Action == routing.ActionLookup && !r.From.IsValid() && !r.To.IsValid() && r.IIF == "" && r.OIF == "" &&
			r.Mask == 0 && r.SuppressPrefixLen == routing.NoSuppress && !in.Plan.Own.HasRule(&r) {
			k.Rules = append(k.Rules, r)
		}
	}
	k.Rules = append(k.Rules, in.Plan.Rules...)
	slices.SortStableFunc(k.Rules, func(a, b routing.Rule) int {
		if a.Family != b.Family {
			return int(a.Family) - int(b.Family)
		}
		return int(int64(a.Priority) - int64(b.Priority))
	})
	for _, r := range in.Kernel.Routes {
		switch {
		case r.Table == routing.LocalID, r.Table == routing.DefaultID,
			r.Table == routing.MainID && !slices.Contains(in.Plan.Own.Protocols, r.Protocol):
			k.Routes = append(k.Routes, r)
		}
	}
	k.Routes = append(k.Routes, in.Plan.Routes...)
	return k
}

// addresses lists the addresses of a node: its InternalIPs and those on class
// links.
func (v *View) addresses(n *routing.Node) []netip.Addr {
	all := slices.Clone(n.InternalIPs)
	if v.Config.Cluster == nil {
		return all
	}
	for _, l := range v.Config.Cluster.Addresses {
		for _, f := range routing.Families {
			if a, ok := refer(l.Ref.Of(f), n); ok && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// refer returns the address that is given as such or by the node's annotation.
func refer(ref routing.AddressRef, n *routing.Node) (netip.Addr, bool) {
	if ref.Addr.IsValid() {
		return ref.Addr, true
	}
	if n == nil || ref.Annotation == "" {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(n.Annotations[ref.Annotation])
	return a, err == nil
}

func (v *View) findGateways() {
	add := func(refs routing.PerFamily[routing.AddressRef], link string) {
		for _, f := range routing.Families {
			if a, ok := refer(refs.Of(f), v.self); ok {
				v.gateways[hopOf(a, link)] = true
			}
		}
	}
	for i := range v.Config.Tables {
		if d := v.Config.Tables[i].Routes.Default; d != nil {
			add(d.Gateway, d.Link)
		}
	}
	if v.Config.BGP != nil {
		for i := range v.Config.BGP.Upstreams {
			add(v.Config.BGP.Upstreams[i].Address, v.Config.BGP.Upstreams[i].Link)
		}
	}
	for _, routes := range [][]routing.Route{v.Kernel.Routes, v.Plan.Routes} {
		for i := range routes {
			if r := &routes[i]; r.Dst.Bits() == 0 && r.Via.IsValid() {
				v.others[hopOf(r.Via, r.Link)] = true
			}
		}
	}
}

// hop is a next hop. A link-local address is one on its link only.
type hop struct {
	addr netip.Addr
	link string // of a link-local one
}

func hopOf(a netip.Addr, link string) hop {
	if !a.IsLinkLocalUnicast() {
		link = ""
	}
	return hop{a, link}
}

// linkClass returns the class of the link that is no pod's, or nil.
func (v *View) linkClass(link string) *routing.Class {
	for i := range v.Config.Classes {
		if c := &v.Config.Classes[i]; c.Link == link && !c.Delegated {
			return c
		}
	}
	return nil
}

// leadsOut reports whether a link may have a router on it: some class of it
// carries traffic of the world, a router on it tells of networks, or it is no
// class's.
func (v *View) leadsOut(link string) bool {
	if slices.Contains(v.Config.ImportLinks(""), link) {
		return true
	}
	known := false
	for i := range v.Config.Classes {
		if c := &v.Config.Classes[i]; c.Link == link {
			known = true
			if c.Gateway() {
				return true
			}
		}
	}
	return !known
}

// network returns the prefixes of a named network of one family.
func (v *View) network(name string, f routing.Family) []netip.Prefix {
	return ofFamily(v.Config.Network(name), f)
}

func ofFamily(all []netip.Prefix, f routing.Family) []netip.Prefix {
	var some []netip.Prefix
	for _, p := range all {
		if routing.FamilyOf(p.Addr()) == f {
			some = append(some, p)
		}
	}
	return some
}

func within(all []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}
