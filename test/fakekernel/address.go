package fakekernel

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// SetDADFailed marks an address as a duplicate, or no longer.
func (k *Kernel) SetDADFailed(link string, p netip.Prefix, failed bool) error {
	return k.onLinkDo("change address of", link, func(l *routing.Link) {
		for i := range l.Addrs {
			if l.Addrs[i].Prefix == p {
				l.Addrs[i].DADFailed = failed
			}
		}
	})
}

// SetNoIPv6 switches IPv6 off or on for a link. Off, its IPv6 addresses and
// routes are gone, on lo the reject routes too; on again, nothing comes back.
func (k *Kernel) SetNoIPv6(link string, off bool) error {
	return k.onLinkDo("switch IPv6 of", link, func(l *routing.Link) {
		if l.NoIPv6 = off; !off {
			return
		}
		name := l.Name
		k.dropRoutes(func(r routing.Route) bool {
			return r.Family() == routing.IPv6 && (r.Link == name || name == "lo" && r.Type.Reject())
		})
		l.Addrs = slices.DeleteFunc(l.Addrs, func(a routing.LinkAddr) bool { return a.Prefix.Addr().Is6() })
	})
}
