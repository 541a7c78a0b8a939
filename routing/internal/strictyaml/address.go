package strictyaml

import (
	"net/netip"
	"strings"
)

// Addr returns an IP address that can belong to one host. It reports false, and
// the reason, otherwise.
func (n *Node) Addr() (netip.Addr, bool) {
	text, ok := n.addressText("an IP address")
	if !ok {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil && strings.Contains(text, "/"):
		n.Errorf("%s must be an address without a prefix length, not %q", n.label(), text)
	case err != nil:
		n.Errorf("%s is not an IP address: %q", n.label(), text)
	case a.Is4In6():
		n.Errorf("%s is an IPv4-mapped address; write %s", n.label(), a.Unmap())
	case a.Zone() != "":
		n.Errorf("%s has a zone; write the address alone, the link is named apart", n.label())
	case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a == broadcast:
		n.Errorf("%s is no address of a host on a link: %s", n.label(), a)
	default:
		return a, true
	}
	return netip.Addr{}, false
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Prefix returns a network in CIDR form, without host bits. It reports false,
// and the reason, otherwise.
func (n *Node) Prefix() (netip.Prefix, bool) {
	text, ok := n.addressText("a network in CIDR form")
	if !ok {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !a.Is4In6() {
			n.Errorf("%s lacks its prefix length: write %s/%d for the one address", n.label(), a, a.BitLen())
			break
		}
		n.Errorf("%s is not a network in CIDR form: %q", n.label(), text)
	case p.Addr().Is4In6():
		n.Errorf("%s is an IPv4-mapped network; write it as IPv4", n.label())
	case p != p.Masked():
		n.Errorf("%s has host bits set: %s; write %s", n.label(), p, p.Masked())
	case p.Bits() == 0:
		n.Errorf("%s must not be everything (%s); name the networks", n.label(), p)
	case p.Addr().IsMulticast() || p.Addr().IsLoopback() || p.Addr().Is6() && p.Addr().IsLinkLocalUnicast():
		n.Errorf("%s is not routed between hosts: %s", n.label(), p)
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

// addressText returns a scalar as written: an address that looks like a number
// is still best reported as a bad address.
func (n *Node) addressText(want string) (string, bool) {
	switch {
	case n == nil:
		return "", false
	case n.kind == kindText || n.kind == kindInt || n.kind == kindFloat:
		return n.text, true
	}
	n.wrong(want)
	return "", false
}
