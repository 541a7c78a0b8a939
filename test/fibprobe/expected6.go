package fibprobe

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// IPv6 returns the same expectation in the addresses that the seed's cluster
// has in IPv6. Rules stand one number lower.
func (e *Expected) IPv6() *Expected {
	v6 := &Expected{
		Rules:   slices.Clone(e.Rules),
		Table:   routes6(e.Table),
		Guard:   routes6(e.Guard),
		States:  e.States,
		Packets: slices.Clone(e.Packets),
	}
	for i := range v6.Rules {
		r := &v6.Rules[i]
		r.Family, r.Priority, r.From = routing.IPv6, r.Priority-1, prefix6(r.From)
	}
	for i := range v6.Packets {
		p := &v6.Packets[i]
		p.Flow.Dst, p.Flow.Src = addr6(p.Flow.Dst), addr6(p.Flow.Src)
		p.Want = slices.Clone(p.Want)
		for j := range p.Want {
			p.Want[j].Via = addr6(p.Want[j].Via)
		}
	}
	return v6
}

func routes6(routes []routing.Route) []routing.Route {
	routes = slices.Clone(routes)
	for i := range routes {
		r := &routes[i]
		r.Dst, r.Via, r.Src = prefix6(r.Dst), addr6(r.Via), addr6(r.Src)
	}
	return routes
}

// addr6 gives an address of the cluster in IPv6: 10.46.0.1 is fd00:46::1,
// 10.244.2.5 is fd00:10:244:2::5, the world's 192.0.2.1 is 2001:db8::1.
func addr6(a netip.Addr) netip.Addr {
	if !a.IsValid() {
		return a
	}
	b := a.As4()
	switch {
	case b[0] != 10:
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", b[3]))
	case b[1] == 244:
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%d::%x", b[2], b[3]))
	case b[1] == 96:
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:96::%x", b[3]))
	case b[2] != 0:
		return netip.MustParseAddr(fmt.Sprintf("fd00:%d:%d::%x", b[1], b[2], b[3]))
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d::%x", b[1], b[3]))
}

func prefix6(p netip.Prefix) netip.Prefix {
	b := p.Addr().As4()
	bits := 64
	switch {
	case p.Bits() == 0:
		return routing.IPv6.Default()
	case b[1] == 244 && p.Bits() == 16:
		bits = 48
	case b[1] == 96 || b[1] == 47 && b[2] != 0:
		bits = 112
	}
	return netip.PrefixFrom(addr6(p.Addr()), bits)
}
