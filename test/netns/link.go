package netns

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Veth makes a pair of virtual Ethernet links, one end here and one in peer
// (which may be the same namespace). Both ends are down.
func (n *NS) Veth(name string, peer *NS, peerName string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	link := netlink.NewVeth(attrs)
	link.PeerName = peerName
	link.PeerNamespace = netlink.NsFd(peer.Fd())
	if err := n.handle.LinkAdd(link); err != nil {
		return fmt.Errorf("add veth %s to %s: %w", name, peerName, err)
	}
	return nil
}

// Bridge makes a bridge, down.
func (n *NS) Bridge(name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := n.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("add bridge %s: %w", name, err)
	}
	return nil
}

// Enslave makes link a port of bridge.
func (n *NS) Enslave(link, bridge string) error {
	return n.onLink("enslave", link, func(l netlink.Link) error {
		b, err := n.handle.LinkByName(bridge)
		if err != nil {
			return err
		}
		return n.handle.LinkSetMaster(l, b)
	})
}

// Up sets links up.
func (n *NS) Up(links ...string) error {
	for _, name := range links {
		if err := n.onLink("set up", name, n.handle.LinkSetUp); err != nil {
			return err
		}
	}
	return nil
}

// Down sets links down.
func (n *NS) Down(links ...string) error {
	for _, name := range links {
		if err := n.onLink("set down", name, n.handle.LinkSetDown); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes a link.
func (n *NS) Delete(link string) error { return n.onLink("delete", link, n.handle.LinkDel) }

// Addr adds addresses such as "10.48.0.1/24" or "fd00:48::1/64" to a link. IPv6
// addresses skip duplicate address detection, so that they are usable at once.
func (n *NS) Addr(link string, prefixes ...string) error {
	for _, p := range prefixes {
		addr, err := address(p)
		if err != nil {
			return err
		}
		err = n.onLink("add address "+p+" to", link, func(l netlink.Link) error { return n.handle.AddrAdd(l, addr) })
		if err != nil {
			return err
		}
	}
	return nil
}

// DelAddr takes addresses off a link.
func (n *NS) DelAddr(link string, prefixes ...string) error {
	for _, p := range prefixes {
		addr, err := address(p)
		if err != nil {
			return err
		}
		err = n.onLink("delete address "+p+" from", link, func(l netlink.Link) error { return n.handle.AddrDel(l, addr) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *NS) onLink(verb, name string, do func(netlink.Link) error) error {
	l, err := n.handle.LinkByName(name)
	if err == nil {
		err = do(l)
	}
	if err != nil {
		return fmt.Errorf("%s link %s: %w", verb, name, err)
	}
	return nil
}

func address(prefix string) (*netlink.Addr, error) {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	addr, err := netlink.ParseAddr(prefix)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	if p.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr, nil
}
