package lab

import (
	"fmt"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// AddClient makes a host on a class link's VLAN that is no node: number n there,
// with the router as its default gateway. The link has the router on it.
func (l *Lab) AddClient(name, link string, n int) (*Host, error) {
	h, err := l.newHost(name)
	if err != nil {
		return nil, err
	}
	if err := h.setUp(); err != nil {
		return nil, err
	}
	if err := l.plug(h, "eth0", link, n); err != nil {
		return nil, fmt.Errorf("make client %s: %w", name, err)
	}
	for _, f := range routing.Families {
		out := static{dst: f.Default(), via: linkPrefix(link, routerNumber, f).Addr(), link: "eth0", proto: unix.RTPROT_BOOT}
		if err := h.addRoute(out); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// ClientAddr returns the address of host number n on a class link's VLAN.
func ClientAddr(link string, n int, f routing.Family) string {
	return linkPrefix(link, n, f).Addr().String()
}
