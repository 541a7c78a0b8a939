package sim

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// flows are packets of every class and origin, without their destination.
func flows(f routing.Family) []fib.Flow {
	if f == routing.IPv4 {
		return flows4
	}
	return flows6
}

var (
	flows4 = []fib.Flow{
		{Src: addr("10.244.1.7"), IIF: "cilium_host"}, // a pod
		{Src: addr("10.47.64.9"), IIF: "cilium_host"}, // a reply from a VIP
		{},                        // a socket of the node's before its source is chosen
		{Src: addr("10.46.0.1")},  // the node
		{Src: addr("10.40.0.1")},  // the node, to the world
		{Src: addr("10.244.1.1")}, // the CNI's own address
		{Src: addr("192.0.2.9"), IIF: "ingress0"},
		{Src: addr("10.46.0.2"), IIF: "node0"},
	}
	flows6 = []fib.Flow{
		{Src: addr("fd00:10:244:1::7"), IIF: "cilium_host"},
		{Src: addr("fd00:47:64::9"), IIF: "cilium_host"},
		{},
		{Src: addr("fd00:46::1")},
		{Src: addr("fd00:40::1")},
		{Src: addr("fd00:10:244:1::1")},
		{Src: addr("2001:db8::9"), IIF: "ingress0"},
		{Src: addr("fd00:46::2"), IIF: "node0"},
	}
)

// fixed are addresses in every network that matters, used and unused.
func fixed(f routing.Family) []netip.Addr {
	if f == routing.IPv4 {
		return fixed4
	}
	return fixed6
}

var (
	fixed4 = addrs("10.244.9.5", "10.244.77.5", "10.46.0.2", "10.46.0.99", "10.48.0.2", "10.48.0.99",
		"10.49.0.2", "10.96.0.10", "10.47.64.9", "10.40.0.2", "10.47.0.9", "192.0.2.1")
	fixed6 = addrs("fd00:10:244:9::5", "fd00:10:244:77::5", "fd00:46::2", "fd00:46::99", "fd00:48::2", "fd00:48::99",
		"fd00:49::2", "fd00:10:96::10", "fd00:47:64::9", "fd00:40::2", "fd00:47::9", "2001:db8::1")
)

func addrs(texts ...string) (as []netip.Addr) {
	for _, t := range texts {
		as = append(as, addr(t))
	}
	return as
}

// destinations are those, and a pod of every node.
func (w *world) destinations(f routing.Family) []netip.Addr {
	ds := slices.Clone(fixed(f))
	for n := 1; n <= w.highest; n++ {
		c := podCIDRs(n)[f/routing.IPv6]
		ds = append(ds, c.Addr().Next().Next().Next().Next().Next())
	}
	return ds
}

// selected reports whether a rule of a configuration may select the flow.
func selected(c *routing.Config, flow fib.Flow) bool {
	f := routing.FamilyOf(flow.Dst)
	in := func(name string, a netip.Addr) bool {
		return name == "" || a.IsValid() && slices.ContainsFunc(c.Network(name), func(p netip.Prefix) bool { return p.Contains(a) })
	}
	for _, t := range c.Tables {
		for _, r := range t.Rules {
			if r.Priority.Of(f) != 0 && in(r.From, flow.Src) && in(r.To, flow.Dst) {
				return true
			}
		}
	}
	if c.BGP != nil {
		for _, u := range c.BGP.Upstreams {
			for _, name := range u.Advertise.Networks {
				if flow.IIF == u.Link && in(name, flow.Dst) {
					return true
				}
			}
		}
	}
	return false
}
