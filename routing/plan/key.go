package plan

import (
	"encoding/binary"
	"net/netip"

	"netclass.dev/routing"
)

// key is a routing.RouteKey packed into plain memory. A pass looks up tens of
// thousands of them; this one is hashed at a stroke, and holds no pointer that
// the garbage collector would have to follow.
type key [4]uint64

func keyOf(r *routing.Route) key { return packed(r.Table, r.Dst, r.Metric) }

func packed(table routing.TableID, dst netip.Prefix, metric uint32) key {
	a := dst.Addr().As16()
	return key{
		binary.BigEndian.Uint64(a[:8]),
		binary.BigEndian.Uint64(a[8:]),
		uint64(table)<<32 | uint64(metric),
		uint64(routing.FamilyOf(dst.Addr()))<<32 | uint64(uint32(dst.Bits())),
	}
}
