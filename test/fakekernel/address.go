package fakekernel

import (
	"net/netip"

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
