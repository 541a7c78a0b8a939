package fakekernel

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// AddLink makes a link that is up and has carrier.
func (k *Kernel) AddLink(name string) error { return k.AddLinkKind(name, "veth", 0) }

// AddLinkKind makes a link of a kind, with the VLAN it shows (0: none).
func (k *Kernel) AddLinkKind(name, kind string, vlan int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.link(name) != nil {
		return fmt.Errorf("add link %s: %w", name, unix.EEXIST)
	}
	l := k.newLink(name, 1500, kind)
	l.VLAN = vlan
	k.setUp(l, true)
	k.event()
	return nil
}

func (k *Kernel) newLink(name string, mtu uint32, kind string) *routing.Link {
	k.lastIndex++ // an index is not used again
	k.links = append(k.links, routing.Link{Name: name, Index: k.lastIndex, MTU: mtu, Kind: kind})
	return &k.links[len(k.links)-1]
}

// DeleteLink removes a link with its routes.
func (k *Kernel) DeleteLink(name string) error {
	return k.onLinkDo("delete", name, func(l *routing.Link) {
		k.setUp(l, false)
		k.links = slices.DeleteFunc(k.links, func(o routing.Link) bool { return o.Name == name })
		delete(k.alive, name)
	})
}

// RenameLink renames a link; its routes follow.
func (k *Kernel) RenameLink(name, to string) error {
	return k.onLinkDo("rename", name, func(l *routing.Link) {
		l.Name = to
		for _, routes := range k.routes {
			for i := range routes {
				if routes[i].Link == name {
					routes[i].Link = to
				}
			}
		}
		k.alive[to] = k.alive[name]
		delete(k.alive, name)
	})
}

// SetUp sets a link up or down. Down, its routes of every table are gone (the
// IPv4 ones without an event of their own), and so are its IPv6 addresses; up
// again, the connected IPv4 routes come back, nothing else.
func (k *Kernel) SetUp(name string, up bool) error {
	return k.onLinkDo("set up", name, func(l *routing.Link) { k.setUp(l, up) })
}

func (k *Kernel) setUp(l *routing.Link, up bool) {
	if l.Up == up {
		return
	}
	l.Up, l.Carrier = up, up
	if up {
		for _, a := range l.Addrs {
			k.connect(l, a.Prefix)
		}
		if l.Name == "lo" && l.Addrs != nil {
			k.addAddr(l, netip.MustParsePrefix("::1/128"))
		}
		return
	}
	name := l.Name
	k.dropRoutes(func(r routing.Route) bool {
		// IPv6 keeps its reject routes on lo.
		return r.Link == name || name == "lo" && r.Type.Reject() && r.Family() == routing.IPv6
	})
	l.Addrs = slices.DeleteFunc(l.Addrs, func(a routing.LinkAddr) bool { return a.Prefix.Addr().Is6() })
}

// SetCarrier takes a link's carrier away or gives it back. Its routes stay.
func (k *Kernel) SetCarrier(name string, on bool) error {
	return k.onLinkDo("set carrier of", name, func(l *routing.Link) { l.Carrier = on && l.Up })
}

// AddAddr gives a link an address that is usable at once.
func (k *Kernel) AddAddr(link string, p netip.Prefix) error {
	return k.onLinkDo("add address to", link, func(l *routing.Link) { k.addAddr(l, p) })
}

func (k *Kernel) addAddr(l *routing.Link, p netip.Prefix) {
	if l.NoIPv6 && p.Addr().Is6() || slices.ContainsFunc(l.Addrs, func(a routing.LinkAddr) bool { return a.Prefix == p }) {
		return
	}
	secondary := p.Addr().Is4() && slices.ContainsFunc(l.Addrs, func(a routing.LinkAddr) bool {
		return a.Prefix.Addr().Is4() && a.Prefix.Masked() == p.Masked()
	})
	l.Addrs = append(l.Addrs, routing.LinkAddr{Prefix: p, Secondary: secondary})
	if l.Up {
		k.connect(l, p)
	}
}

// SetTentative marks an address as being checked for doubles, or no longer.
func (k *Kernel) SetTentative(link string, p netip.Prefix, tentative bool) error {
	return k.onLinkDo("change address of", link, func(l *routing.Link) {
		for i := range l.Addrs {
			if l.Addrs[i].Prefix == p {
				l.Addrs[i].Tentative = tentative
			}
		}
	})
}

// DelAddr takes an address off a link. IPv4 routes of main with that source go
// without an event; other tables keep theirs with the dead source. IPv6 routes
// lose the source. With the last IPv4 address all IPv4 routes of the link go.
func (k *Kernel) DelAddr(link string, p netip.Prefix) error {
	return k.onLinkDo("delete address from", link, func(l *routing.Link) {
		l.Addrs = slices.DeleteFunc(l.Addrs, func(a routing.LinkAddr) bool { return a.Prefix == p })
		dead := p.Addr()
		if dead.Is6() {
			k.disconnect(l, p)
			k.stripSource(dead)
			return
		}
		k.disconnect(l, p)
		last := !slices.ContainsFunc(l.Addrs, func(a routing.LinkAddr) bool { return a.Prefix.Addr().Is4() })
		name := l.Name
		k.dropRoutes(func(r routing.Route) bool {
			return r.Family() == routing.IPv4 && (last && r.Link == name || r.Table == routing.MainID && r.Src == dead)
		})
	})
}

// Neighbour lets somebody with the address answer on the link.
func (k *Kernel) Neighbour(link string, p netip.Prefix) error {
	k.SetAlive(link, p.Addr(), true)
	return nil
}

// SetAlive says whether somebody answers for an address on the link.
func (k *Kernel) SetAlive(link string, a netip.Addr, alive bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.alive[link] == nil {
		k.alive[link] = map[netip.Addr]bool{}
	}
	k.alive[link][a] = alive
}

// onLinkDo changes a link, which always is an event.
func (k *Kernel) onLinkDo(verb, name string, do func(*routing.Link)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, err := k.needLink(name)
	if err != nil {
		return fmt.Errorf("%s link %s: %w", verb, name, err)
	}
	do(l)
	k.event()
	return nil
}

// connect makes the kernel's own routes of an address.
func (k *Kernel) connect(l *routing.Link, p netip.Prefix) {
	for _, r := range connected(l, p) {
		if _, there := k.routes[r.Key()]; !there {
			k.routes[r.Key()] = []routing.Route{r}
		}
	}
}

func (k *Kernel) disconnect(l *routing.Link, p netip.Prefix) {
	for _, r := range connected(l, p) {
		k.setRoutes(r.Key(), slices.DeleteFunc(k.routes[r.Key()], func(o routing.Route) bool { return o == r }))
	}
}

// connected are the kernel's own routes of an address: the address itself in
// the local table, and its network in main.
func connected(l *routing.Link, p netip.Prefix) []routing.Route {
	host := routing.Route{
		Table: routing.LocalID, Type: routing.Local, Protocol: routing.ProtocolKernel,
		Dst: netip.PrefixFrom(p.Addr(), p.Addr().BitLen()), Link: l.Name,
	}
	network := routing.Route{Table: routing.MainID, Protocol: routing.ProtocolKernel, Dst: p.Masked(), Link: l.Name}
	if p.Addr().Is4() {
		host.Src, network.Src = p.Addr(), p.Addr()
	} else {
		network.Metric = 256
	}
	if p.Addr().IsLoopback() || p.IsSingleIP() && p.Addr().Is4() {
		return []routing.Route{host}
	}
	return []routing.Route{host, network}
}

func (k *Kernel) dropRoutes(drop func(routing.Route) bool) {
	for key, routes := range k.routes {
		k.setRoutes(key, slices.DeleteFunc(routes, drop))
	}
}

func (k *Kernel) stripSource(dead netip.Addr) {
	for _, routes := range k.routes {
		for i := range routes {
			if routes[i].Src == dead && routes[i].Family() == routing.IPv6 {
				routes[i].Src = netip.Addr{}
			}
		}
	}
}
