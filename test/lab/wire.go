package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// quiet makes a host forward at once and say nothing of its own accord: no
// duplicate address detection to wait for, no router solicitations, no
// redirects, and no source check on the class links, which see asymmetric
// traffic by design.
var quiet = map[string]string{
	"ipv4/ip_forward":                    "1",
	"ipv4/conf/all/rp_filter":            "0",
	"ipv4/conf/default/rp_filter":        "0",
	"ipv4/conf/all/send_redirects":       "0",
	"ipv4/conf/default/send_redirects":   "0",
	"ipv4/conf/all/accept_redirects":     "0",
	"ipv4/conf/default/accept_redirects": "0",

	"ipv6/conf/all/forwarding":               "1",
	"ipv6/conf/all/accept_dad":               "0",
	"ipv6/conf/default/accept_dad":           "0",
	"ipv6/conf/default/dad_transmits":        "0",
	"ipv6/conf/default/router_solicitations": "0",
	"ipv6/conf/default/accept_ra":            "0",
	"ipv6/conf/default/accept_redirects":     "0",
}

// setUp gives a host its settings.
func (h *Host) setUp() error { return h.Sysctl(quiet) }

// wire makes a veth pair between two hosts and brings both ends up.
func wire(a *Host, aName string, b *Host, bName string) error {
	err := a.nl.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: aName},
		PeerName:      bName,
		PeerNamespace: netlink.NsFd(b.ns.Fd()),
	})
	if err != nil {
		return fmt.Errorf("wire %s %s to %s %s: %w", a.Name, aName, b.Name, bName, err)
	}
	if err := b.setLink(bName, true); err != nil {
		return err
	}
	return a.setLink(aName, true)
}

func (h *Host) link(name string) (netlink.Link, error) {
	l, err := h.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find link %s on %s: %w", name, h.Name, err)
	}
	return l, nil
}

func (h *Host) setLink(name string, up bool) error {
	l, err := h.link(name)
	if err != nil {
		return err
	}
	set, word := h.nl.LinkSetDown, "down"
	if up {
		set, word = h.nl.LinkSetUp, "up"
	}
	if err := set(l); err != nil {
		return fmt.Errorf("set %s %s on %s: %w", name, word, h.Name, err)
	}
	return nil
}

// AddAddr adds an address to a link, or leaves the one that is there.
func (h *Host) AddAddr(link string, p netip.Prefix) error {
	l, err := h.link(link)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	if err := h.nl.AddrReplace(l, addr); err != nil {
		return fmt.Errorf("add address %s to %s on %s: %w", p, link, h.Name, err)
	}
	return nil
}

// RemoveAddr removes an address from a link.
func (h *Host) RemoveAddr(link string, p netip.Prefix) error {
	l, err := h.link(link)
	if err != nil {
		return err
	}
	if err := h.nl.AddrDel(l, &netlink.Addr{IPNet: ipNet(p)}); err != nil {
		return fmt.Errorf("remove address %s from %s on %s: %w", p, link, h.Name, err)
	}
	return nil
}

// static is a route in main that the lab makes in the place of an operating
// system or a CNI.
type static struct {
	dst   netip.Prefix
	via   netip.Addr
	link  string
	src   netip.Addr
	proto int
}

// addRoute adds a route to main, or replaces the one that is there.
func (h *Host) addRoute(s static) error {
	l, err := h.link(s.link)
	if err != nil {
		return err
	}
	r := &netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: ipNet(s.dst), Protocol: netlink.RouteProtocol(s.proto),
		Table: unix.RT_TABLE_MAIN, Family: family(s.dst.Addr()),
	}
	if s.via.IsValid() {
		r.Gw = s.via.AsSlice()
	} else if s.dst.Addr().Is4() {
		r.Scope = netlink.SCOPE_LINK
	}
	if s.src.IsValid() {
		r.Src = s.src.AsSlice()
	}
	if err := h.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("add route %s dev %s on %s: %w", s.dst, s.link, h.Name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// makeSwitch makes the switch: a host that forwards nothing itself, with one
// bridge for each VLAN.
func (l *Lab) makeSwitch() error {
	h, err := l.newHost("switch")
	if err != nil {
		return err
	}
	l.Switch = h
	// Its ports are layer 2 only: an address of their own would make them talk.
	if err := h.Sysctl(map[string]string{"ipv6/conf/default/disable_ipv6": "1"}); err != nil {
		return err
	}
	off := false
	for _, link := range ClassLinks {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName(link)}, MulticastSnooping: &off}
		if err := h.nl.LinkAdd(bridge); err != nil {
			return fmt.Errorf("make bridge %s: %w", bridge.Name, err)
		}
		if err := h.setLink(bridge.Name, true); err != nil {
			return err
		}
	}
	return nil
}

func bridgeName(link string) string { return fmt.Sprintf("vlan%d", vlans[link]) }

// plug connects a host's link to its VLAN on the switch, as host number n.
func (l *Lab) plug(h *Host, name, class string, n int) error {
	port := portName(class, n)
	if err := wire(h, name, l.Switch, port); err != nil {
		return err
	}
	if err := l.setPort(class, n, true); err != nil {
		return err
	}
	for _, f := range routing.Families {
		if err := h.AddAddr(name, linkPrefix(class, n, f)); err != nil {
			return err
		}
	}
	return nil
}

func portName(class string, n int) string { return fmt.Sprintf("%s.%d", bridgeName(class), n) }

// setPort lets the switch forward on a port, or not. Taken out of its bridge the
// port still has carrier: the far end sees nothing but silence.
func (l *Lab) setPort(class string, n int, forward bool) error {
	port, err := l.Switch.link(portName(class, n))
	if err != nil {
		return err
	}
	if !forward {
		if err := l.Switch.nl.LinkSetNoMaster(port); err != nil {
			return fmt.Errorf("cut %s: %w", port.Attrs().Name, err)
		}
		return nil
	}
	bridge, err := l.Switch.link(bridgeName(class))
	if err != nil {
		return err
	}
	if err := l.Switch.nl.LinkSetMaster(port, bridge); err != nil {
		return fmt.Errorf("plug %s in: %w", port.Attrs().Name, err)
	}
	return nil
}
