package fibprobe

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// rtmsg is struct rtmsg (linux/rtnetlink.h).
const rtmsgLen = 12

// Offsets into struct rtmsg.
const (
	rtmFamily = 0
	rtmDstLen = 1
	rtmSrcLen = 2
	rtmTable  = 4
	rtmType   = 7
	rtmFlags  = 8
)

// lookupTable is RTM_F_LOOKUP_TABLE: the answer names the table that decided.
const lookupTable = 0x1000

// Route asks the stack, like `ip route get DST from SRC iif IIF oif OIF mark M`.
// Not finding a route is an answer, not an error.
func (p *Prober) Route(f fib.Flow) (Answer, error) {
	if f.Dst.Is4() && f.IIF != "" && !f.Src.IsValid() {
		// The kernel's EINVAL would look like a blackhole.
		return Answer{}, fmt.Errorf("get route to %s: a packet that arrives needs a source", f.Dst)
	}
	request, err := p.routeRequest(f)
	if err != nil {
		return Answer{}, fmt.Errorf("get route to %s: %w", f.Dst, err)
	}
	replies, err := p.conn.Execute(request)
	if err != nil {
		return failure(f, err)
	}
	if len(replies) != 1 {
		return Answer{}, fmt.Errorf("get route to %s: %d replies", f.Dst, len(replies))
	}
	a, err := p.routeAnswer(replies[0].Data)
	if err != nil {
		return Answer{}, fmt.Errorf("get route to %s: %w", f.Dst, err)
	}
	return a, nil
}

func (p *Prober) routeRequest(f fib.Flow) (netlink.Message, error) {
	head := make([]byte, rtmsgLen)
	head[rtmFamily] = unix.AF_INET6
	if f.Dst.Is4() {
		head[rtmFamily] = unix.AF_INET
	}
	head[rtmDstLen] = uint8(f.Dst.BitLen())
	head[rtmFlags+1] = lookupTable >> 8
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.RTA_DST, f.Dst.AsSlice())
	if f.Src.IsValid() {
		head[rtmSrcLen] = uint8(f.Src.BitLen())
		attrs.Bytes(unix.RTA_SRC, f.Src.AsSlice())
	}
	for _, l := range []struct {
		attr uint16
		name string
	}{{unix.RTA_IIF, f.IIF}, {unix.RTA_OIF, f.OIF}} {
		if l.name == "" {
			continue
		}
		index, err := p.index(l.name)
		if err != nil {
			return netlink.Message{}, err
		}
		attrs.Uint32(l.attr, index)
	}
	if f.Mark != 0 {
		attrs.Uint32(unix.RTA_MARK, f.Mark)
	}
	tail, err := attrs.Encode()
	if err != nil {
		return netlink.Message{}, err
	}
	return netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request},
		Data:   append(head, tail...),
	}, nil
}

// failure reads an error of the kernel's as an answer. IPv4 answers all reject
// routes so, and in both families a lookup that no rule's table could answer is
// ENETUNREACH, as is a rule of type unreachable.
func failure(f fib.Flow, err error) (Answer, error) {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return Answer{}, fmt.Errorf("get route to %s: %w", f.Dst, err)
	}
	a := Answer{Code: unix.ErrnoName(errno)}
	switch errno {
	case unix.ENETUNREACH:
		a.Action = fib.NoRoute
	case unix.EHOSTUNREACH:
		a.Action = fib.Unreachable
	case unix.EACCES:
		a.Action = fib.Prohibit
	case unix.EINVAL:
		a.Action = fib.Blackhole
	default:
		return Answer{}, fmt.Errorf("get route to %s: %w", f.Dst, err)
	}
	return a, nil
}

func (p *Prober) routeAnswer(data []byte) (Answer, error) {
	if len(data) < rtmsgLen {
		return Answer{}, errors.New("short reply")
	}
	a := Answer{Table: routing.TableID(data[rtmTable])}
	switch data[rtmType] {
	case unix.RTN_UNICAST:
		a.Action = fib.Forward
	case unix.RTN_UNREACHABLE:
		a.Action = fib.Unreachable
	case unix.RTN_BLACKHOLE:
		a.Action = fib.Blackhole
	case unix.RTN_PROHIBIT:
		a.Action = fib.Prohibit
	case unix.RTN_THROW:
		a.Action = fib.NoRoute
	default:
		a.Action = fib.Local
	}
	attrs, err := netlink.NewAttributeDecoder(data[rtmsgLen:])
	if err != nil {
		return Answer{}, err
	}
	var oif uint32
	for attrs.Next() {
		switch attrs.Type() {
		case unix.RTA_TABLE:
			a.Table = routing.TableID(attrs.Uint32())
		case unix.RTA_OIF:
			oif = attrs.Uint32()
		case unix.RTA_PRIORITY:
			a.Metric = attrs.Uint32()
		case unix.RTA_GATEWAY:
			a.Via, _ = netip.AddrFromSlice(attrs.Bytes())
		case unix.RTA_PREFSRC:
			a.Src, _ = netip.AddrFromSlice(attrs.Bytes())
		}
	}
	if err := attrs.Err(); err != nil {
		return Answer{}, err
	}
	if (a.Action == fib.Forward || a.Action == fib.Local) && oif != 0 {
		a.Link, err = p.name(oif)
	}
	return a, err
}
