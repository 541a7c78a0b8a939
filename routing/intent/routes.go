package intent

import (
	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// gateway is a configured address of a router.
type gateway struct {
	what, link string
	ref        routing.PerFamily[routing.AddressRef]
}

func (r *reader) readRoutes(n *strictyaml.Node, place *tablePlace) routing.Sources {
	m := n.Map()
	var s routing.Sources
	place.connected, place.own = m.Get("connected"), m.Get("own")
	place.peers, place.def = m.Get("peers"), m.Get("default")
	m.Done()

	taken := map[string]int{}
	for _, item := range place.connected.List() {
		name := link(item)
		unique(taken, item, "link", name)
		if name != "" {
			s.Connected = append(s.Connected, name)
		}
	}
	if place.own != nil {
		s.Own = r.readOwn(place.own)
	}
	if place.peers != nil {
		s.Peers = r.readPeers(place.peers, place)
	}
	if place.def != nil {
		s.Default = r.readDefault(place.def)
	}
	return s
}

func (r *reader) readOwn(n *strictyaml.Node) *routing.Own {
	m := n.Map()
	linkNode, typeNode := m.Get("link"), m.Get("type")
	m.Done()
	own := &routing.Own{Link: link(linkNode)}
	if typeNode.Enum("", routing.Blackhole.String()) != "" {
		own.Type = routing.Blackhole
	}
	if m.OK() && (linkNode == nil) == (typeNode == nil) {
		n.Errorf("own needs exactly one of link and type")
	}
	r.byNode = append(r.byNode, nodeUse{"own", n})
	return own
}

func (r *reader) readPeers(n *strictyaml.Node, place *tablePlace) *routing.Peers {
	m := n.Map()
	linkNode, learn := m.Require("link"), m.Require("learn")
	p := &routing.Peers{
		Link:   link(linkNode),
		Learn:  routing.Learn(learn.Enum("", string(routing.LearnBGP), string(routing.LearnNodes))),
		Accept: routing.Accept(m.Get("accept").Enum(string(routing.AcceptAssigned), string(routing.AcceptAssigned), string(routing.AcceptWithin))),
		OnLink: m.Get("onlink").Bool(false),
		MTU:    mtu(m.Get("mtu")),
	}
	nextHop := m.Get("nextHop")
	p.NextHop = r.hop(nextHop, p.Link)
	r.hops = append(r.hops, hopPlace{p.Link, "nextHop", nextHop != nil || p.NextHop == routing.HopLink, n})
	place.fallback = m.Get("fallback")
	p.Fallback = r.readFallback(place.fallback)
	m.Done()
	r.byNode = append(r.byNode, nodeUse{"peers", n})
	return p
}

// mtu reads a route's MTU; 0 is none. IPv4 needs at least 68 (RFC 791); IPv6's
// 1280 (RFC 8200) is checked where the families are known.
func mtu(n *strictyaml.Node) uint32 {
	v := uint32(n.Uint(0, 65535, 0))
	if v != 0 && v < 68 {
		n.Errorf("mtu must be 0 (none) or 68 to 65535, not %d", v)
		return 0
	}
	return v
}

// hop reads which of a node's addresses on a link is meant. Where nodes say
// their address on the link, that is the default.
func (r *reader) hop(n *strictyaml.Node, link string) routing.HopKind {
	absent := routing.HopInternalIP
	_, given := r.config.Cluster.Address(link)
	if given {
		absent = routing.HopLink
	}
	hop := routing.HopKind(n.Enum(string(absent), string(routing.HopLink), string(routing.HopInternalIP)))
	if n != nil && hop == routing.HopLink && !given && link != "" {
		n.Warnf("%s: link, but cluster.addresses does not say where a node's address on %s is found: its InternalIP is used", n.Key, link)
	}
	return hop
}

// readFallback reads {link, nextHop}, main or none.
func (r *reader) readFallback(n *strictyaml.Node) routing.Fallback {
	if n == nil {
		return routing.Fallback{}
	}
	if !n.IsMap() {
		if !n.IsText() {
			n.Errorf("fallback must be main, none, or {link: …, nextHop: …}")
			return routing.Fallback{}
		}
		return routing.Fallback{Main: n.Enum("none", "main", "none") == "main"}
	}
	m := n.Map()
	f := routing.Fallback{Link: link(m.Require("link"))}
	f.NextHop = r.hop(m.Get("nextHop"), f.Link)
	m.Done()
	return f
}

func (r *reader) readDefault(n *strictyaml.Node) *routing.Default {
	m := n.Map()
	d := &routing.Default{
		Link:       link(m.Require("link")),
		OnLinkDown: routing.LinkDown(m.Get("onLinkDown").Enum(string(routing.LinkDownFallback), string(routing.LinkDownFallback), string(routing.LinkDownHold))),
	}
	if g := m.Require("gateway"); g != nil {
		d.Gateway = perFamily(g, r.addressRef)
		needFamily(g)
	}
	m.Done()
	r.gateways = append(r.gateways, gateway{"the default", d.Link, d.Gateway})
	return d
}

func (r *reader) readGuard(n *strictyaml.Node) {
	if n == nil {
		return
	}
	m := n.Map()
	r.guard = n
	g := &routing.Guard{
		Networks: r.networkList(m.Get("networks"), "a guard"),
		AsRules:  m.Get("as").Enum("routes", "routes", "rules") == "rules",
		Priority: 32762,
	}
	if p := m.Get("priority"); p != nil {
		g.Priority = uint32(p.Uint(1, 32764, 32762))
		if !g.AsRules && g.Priority != 32762 {
			p.Warnf("priority is used with `as: rules` only")
		}
	}
	m.Done()
	r.config.Guard = g
}
