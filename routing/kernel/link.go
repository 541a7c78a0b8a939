package kernel

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// rtextSkipStats (RTEXT_FILTER_SKIP_STATS) keeps counters out of link answers.
const rtextSkipStats = 1 << 3

// links lists the links without their addresses.
func (s *socket) links(ctx context.Context) ([]routing.Link, error) {
	var links []routing.Link
	body := appendU32(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_EXT_MASK, rtextSkipStats)
	err := s.list(ctx, unix.RTM_GETLINK, unix.RTM_NEWLINK, body, func(b []byte) error {
		l, err := decodeLink(b)
		if err == nil {
			links = append(links, l)
		}
		return err
	})
	return links, err
}

// decodeLink reads struct ifinfomsg and its attributes.
func decodeLink(b []byte) (routing.Link, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return routing.Link{}, fmt.Errorf("decode link: %w", errShort)
	}
	flags := native.Uint32(b[8:])
	l := routing.Link{
		Index:   int(int32(native.Uint32(b[4:]))),
		Up:      flags&unix.IFF_UP != 0,
		Carrier: flags&unix.IFF_LOWER_UP != 0,
	}
	for kind, v := range attributes(b[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = text(v)
		case unix.IFLA_MTU:
			l.MTU = u32(v)
		case unix.IFLA_LINKINFO:
			l.Kind, l.VLAN = decodeLinkInfo(v)
		case unix.IFLA_AF_SPEC:
			l.NoIPv6, l.RPFilter = decodeNoIPv6(v), decodeRPFilter(v)
		}
	}
	return l, nil
}

// Places in the settings of a link (linux/if_link.h, linux/ipv6.h).
const (
	inet6Conf       = 2  // IFLA_INET6_CONF
	confDisableIPv6 = 26 // DEVCONF_DISABLE_IPV6
)

// decodeNoIPv6 reads disable_ipv6 from a link's settings by family. A link that
// has no IPv6 settings at all, as with a tiny MTU or without IPv6 in the kernel,
// takes no routes either; but older kernels may not say, so that it is not
// judged by what is missing.
func decodeNoIPv6(b []byte) bool {
	for family, settings := range attributes(b) {
		if family != unix.AF_INET6 {
			continue
		}
		for kind, v := range attributes(settings) {
			if at := 4 * confDisableIPv6; kind == inet6Conf && len(v) >= at+4 {
				return native.Uint32(v[at:]) != 0
			}
		}
	}
	return false
}

func decodeLinkInfo(b []byte) (kind string, vlan int) {
	var data []byte
	for k, v := range attributes(b) {
		switch k {
		case unix.IFLA_INFO_KIND:
			kind = text(v)
		case unix.IFLA_INFO_DATA:
			data = v
		}
	}
	if kind != "vlan" {
		return kind, 0
	}
	for k, v := range attributes(data) {
		if k == unix.IFLA_VLAN_ID {
			vlan = int(u16(v))
		}
	}
	return kind, vlan
}

// addresses calls each with every address and the index of its link.
func (s *socket) addresses(ctx context.Context, each func(index int, a routing.LinkAddr) error) error {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		body := make([]byte, unix.SizeofIfAddrmsg)
		body[0] = family
		err := s.list(ctx, unix.RTM_GETADDR, unix.RTM_NEWADDR, body, func(b []byte) error {
			index, a, err := decodeAddress(b)
			if err != nil {
				return err
			}
			return each(index, a)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// linkLocal reports whether a link has a usable IPv6 link-local address.
func (s *socket) linkLocal(ctx context.Context, index int) (found bool, err error) {
	body := make([]byte, unix.SizeofIfAddrmsg)
	body[0] = unix.AF_INET6
	native.PutUint32(body[4:], uint32(index)) // older kernels list every link
	err = s.list(ctx, unix.RTM_GETADDR, unix.RTM_NEWADDR, body, func(b []byte) error {
		i, a, err := decodeAddress(b)
		found = found || i == index && a.Prefix.Addr().IsLinkLocalUnicast() && a.Usable()
		return err
	})
	return found, err
}

// decodeAddress reads struct ifaddrmsg and its attributes.
func decodeAddress(b []byte) (int, routing.LinkAddr, error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return 0, routing.LinkAddr{}, fmt.Errorf("decode address: %w", errShort)
	}
	family, bits, flags, index := b[0], b[1], uint32(b[2]), int(native.Uint32(b[4:]))
	var local, address netip.Addr
	for kind, v := range attributes(b[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local = addr(v)
		case unix.IFA_ADDRESS: // the peer's on a point-to-point link
			address = addr(v)
		case unix.IFA_FLAGS:
			flags = u32(v)
		}
	}
	if !local.IsValid() {
		local = address
	}
	p, err := prefix(family, local, bits)
	if err != nil {
		return 0, routing.LinkAddr{}, fmt.Errorf("decode address: %w", err)
	}
	return index, routing.LinkAddr{
		Prefix: p,
		// An optimistic address is used while it is still being checked.
		Tentative: flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0,
		DADFailed: flags&unix.IFA_F_DADFAILED != 0,
		// IFA_F_SECONDARY is IFA_F_TEMPORARY in IPv6.
		Secondary: flags&(unix.IFA_F_SECONDARY|unix.IFA_F_DEPRECATED) != 0,
	}, nil
}

// link asks for one link by name, and returns its flags (IFF_*) too.
func (s *socket) link(name string) (l routing.Link, flags uint32, err error) {
	b := append(s.request(nil, unix.RTM_GETLINK, 0), make([]byte, unix.SizeofIfInfomsg)...)
	b = appendAttr(b, unix.IFLA_IFNAME, append([]byte(name), 0))
	b = appendU32(b, unix.IFLA_EXT_MASK, rtextSkipStats)
	answer, err := s.query(finish(b, 0))
	if err != nil {
		return l, 0, fmt.Errorf("find link %s: %w", name, err)
	}
	if l, err = decodeLink(answer); err != nil {
		return l, 0, err
	}
	return l, native.Uint32(answer[8:]), nil
}
