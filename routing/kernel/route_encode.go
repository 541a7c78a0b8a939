package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

var routeNumbers = [...]uint8{
	routing.Unicast:     unix.RTN_UNICAST,
	routing.Local:       unix.RTN_LOCAL,
	routing.Unreachable: unix.RTN_UNREACHABLE,
	routing.Blackhole:   unix.RTN_BLACKHOLE,
	routing.Prohibit:    unix.RTN_PROHIBIT,
	routing.Throw:       unix.RTN_THROW,
}

// loopback is the index of lo in every namespace.
const loopback = 1

// routeRequest returns the message type and flags of a verb. An add is
// exclusive, so that it never takes over or doubles what is there; a replace
// changes the route of the same destination and metric in one step, and creates
// it when it is gone.
func routeRequest(v routing.Verb) (kind, flags uint16) {
	switch v {
	case routing.Add:
		return unix.RTM_NEWROUTE, unix.NLM_F_CREATE | unix.NLM_F_EXCL
	case routing.Replace:
		return unix.RTM_NEWROUTE, unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	return unix.RTM_DELROUTE, 0
}

// appendRoute encodes struct rtmsg and the attributes of a route. The index is
// that of its link; 0 leaves the link open, which only a delete may.
//
// A delete names everything that tells our route from another of the same
// destination and metric. It leaves out source and MTU, which the kernel may
// have changed behind our back.
func appendRoute(b []byte, verb routing.Verb, r routing.Route, index int) ([]byte, error) {
	if !r.Dst.IsValid() || int(r.Type) >= len(routeNumbers) {
		return b, fmt.Errorf("a route of type %s to %s cannot be written", r.Type, r.Dst)
	}
	v4 := r.Dst.Addr().Is4()
	if !v4 && r.Metric == 0 {
		return b, errors.New("an IPv6 route needs a metric: the kernel makes 0 into 1024")
	}
	table, flags := uint8(unix.RT_TABLE_UNSPEC), uint32(0)
	if r.Table < 256 {
		table = uint8(r.Table)
	}
	if r.OnLink {
		flags = unix.RTNH_F_ONLINK
	}
	b = append(b, familyNumber(v4), uint8(r.Dst.Bits()), 0, 0,
		table, uint8(r.Protocol), scope(verb, r, v4), routeNumbers[r.Type])
	b = native.AppendUint32(b, flags)
	if r.Dst.Bits() > 0 {
		b = appendAddr(b, unix.RTA_DST, r.Dst.Addr())
	}
	b = appendU32(b, unix.RTA_TABLE, uint32(r.Table))
	b = appendU32(b, unix.RTA_PRIORITY, r.Metric)
	switch {
	case !r.Type.Reject():
		if index != 0 {
			b = appendU32(b, unix.RTA_OIF, uint32(index))
		}
	case verb == routing.Delete && !v4:
		// Without it IPv6 would take any route of this prefix and metric.
		b = appendU32(b, unix.RTA_OIF, loopback)
	}
	switch {
	case !r.Via.IsValid():
	case r.Via.Is4() == v4:
		b = appendAddr(b, unix.RTA_GATEWAY, r.Via)
	default:
		via := native.AppendUint16(nil, uint16(familyNumber(r.Via.Is4())))
		b = appendAttr(b, unix.RTA_VIA, append(via, r.Via.AsSlice()...))
	}
	if verb == routing.Delete {
		return b, nil
	}
	if r.Src.IsValid() {
		b = appendAddr(b, unix.RTA_PREFSRC, r.Src)
	}
	if r.MTU != 0 {
		b = appendAttr(b, unix.RTA_METRICS, appendU32(nil, unix.RTAX_MTU, r.MTU))
	}
	return b, nil
}

// scope says how far the destination is, which only IPv4 looks at.
func scope(verb routing.Verb, r routing.Route, v4 bool) uint8 {
	switch {
	case verb == routing.Delete && v4:
		return unix.RT_SCOPE_NOWHERE // any
	case r.Type == routing.Local:
		return unix.RT_SCOPE_HOST
	case r.Type == routing.Unicast && !r.Via.IsValid() && v4:
		return unix.RT_SCOPE_LINK
	}
	return unix.RT_SCOPE_UNIVERSE
}
