package kernel

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// The kernel's numbers of the route types (RTN_*).
var routeTypes = map[uint8]routing.RouteType{
	unix.RTN_UNICAST:     routing.Unicast,
	unix.RTN_LOCAL:       routing.Local,
	unix.RTN_UNREACHABLE: routing.Unreachable,
	unix.RTN_BLACKHOLE:   routing.Blackhole,
	unix.RTN_PROHIBIT:    routing.Prohibit,
	unix.RTN_THROW:       routing.Throw,
	unix.RTN_BROADCAST:   routing.Broadcast,
	unix.RTN_ANYCAST:     routing.Anycast,
	unix.RTN_MULTICAST:   routing.Multicast,
}

// rtaNextHopID (RTA_NH_ID) names a next hop object.
const rtaNextHopID = 30

// hop is the part of a route that names where packets leave.
type hop struct {
	index int
	via   netip.Addr
	flags uint32
}

// decodeRoute reads struct rtmsg and its attributes. Cached entries are not
// routes (ok is false). An index that name does not know interrupts the dump.
//
// A route for some sources or types of service only is shown as Other: it says
// nothing about the packets that routes of its prefix are compared by.
func decodeRoute(b []byte, name func(int) (string, bool)) (r routing.Route, ok bool, err error) {
	if len(b) < unix.SizeofRtMsg {
		return r, false, fmt.Errorf("decode route: %w", errShort)
	}
	family, bits, srcBits, tos := b[0], b[1], b[2], b[3]
	r = routing.Route{Table: routing.TableID(b[4]), Protocol: routing.Protocol(b[5]), Type: routing.Other}
	if t, known := routeTypes[b[7]]; known && srcBits == 0 && tos == 0 {
		r.Type = t
	}
	nh := hop{flags: native.Uint32(b[8:])}
	if nh.flags&unix.RTM_F_CLONED != 0 {
		return r, false, nil
	}
	var dst netip.Addr
	object := false
	for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			dst = addr(v)
		case unix.RTA_OIF:
			nh.index = int(u32(v))
		case unix.RTA_GATEWAY:
			nh.via = addr(v)
		case unix.RTA_VIA:
			nh.via = decodeVia(v)
		case unix.RTA_PRIORITY:
			r.Metric = u32(v)
		case unix.RTA_PREFSRC:
			r.Src = addr(v)
		case unix.RTA_TABLE:
			r.Table = routing.TableID(u32(v))
		case unix.RTA_METRICS:
			r.MTU = decodeMTU(v)
		case unix.RTA_MULTIPATH:
			nh, r.Multipath = decodeMultipath(v, nh)
		case rtaNextHopID:
			object = true
		}
	}
	if r.Dst, err = prefix(family, dst, bits); err != nil {
		return r, false, fmt.Errorf("decode route: %w", err)
	}
	r.OnLink = nh.flags&unix.RTNH_F_ONLINK != 0
	r.LinkDown = nh.flags&unix.RTNH_F_LINKDOWN != 0
	r.Dead = nh.flags&unix.RTNH_F_DEAD != 0
	r.Via = nh.via
	if r.Type.Reject() {
		return r, true, nil // IPv6 shows lo, where it keeps them
	}
	if nh.index == 0 {
		// A next hop object may be all that the kernel tells.
		r.Multipath = r.Multipath || object
		return r, true, nil
	}
	link, known := name(nh.index)
	if !known {
		return r, false, errInterrupted
	}
	r.Link = link
	return r, true, nil
}

// decodeVia reads struct rtvia: a next hop of another family.
func decodeVia(b []byte) netip.Addr {
	if len(b) < 2 {
		return netip.Addr{}
	}
	return addr(b[2:])
}

func decodeMTU(b []byte) uint32 {
	for kind, v := range attributes(b) {
		if kind == unix.RTAX_MTU {
			return u32(v)
		}
	}
	return 0
}

// decodeMultipath reads the first of a list of struct rtnexthop and says whether
// there are more. The flags of the route's header still count.
func decodeMultipath(b []byte, nh hop) (first hop, more bool) {
	if len(b) < unix.SizeofRtNexthop {
		return nh, false
	}
	length := int(native.Uint16(b))
	if length < unix.SizeofRtNexthop || length > len(b) {
		return nh, false
	}
	first = hop{flags: nh.flags | uint32(b[2]), index: int(native.Uint32(b[4:]))}
	for kind, v := range attributes(b[unix.SizeofRtNexthop:length]) {
		switch kind {
		case unix.RTA_GATEWAY:
			first.via = addr(v)
		case unix.RTA_VIA:
			first.via = decodeVia(v)
		}
	}
	return first, align(length) < len(b)
}
