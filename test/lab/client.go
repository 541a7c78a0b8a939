package lab

import (
	"fmt"
	"net"
	"net/netip"
	"time"

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

// DialStream connects the host to something that sends back what it is sent.
func (h *Host) DialStream(to netip.AddrPort) (*Stream, error) {
	s := &Stream{Name: fmt.Sprintf("%s -> %s", h.Name, to), last: time.Now()}
	err := h.Do(func() (err error) {
		s.conn, err = net.DialTimeout("tcp", to.String(), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", s.Name, err)
	}
	s.echo = s.conn
	s.tasks.Go(s.write)
	s.tasks.Go(s.read)
	return s, nil
}
