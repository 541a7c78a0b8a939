package bgp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"

	"netclass.dev/routing"
)

// Path attributes that are looked at (RFC 4271 §4.3, RFC 1997, RFC 4456 §8, RFC
// 4760 §3, RFC 8092 §3).
const (
	attrASPath     = 2
	attrNextHop    = 3
	attrCommunity  = 8
	attrOriginator = 9
	attrMPReach    = 14
	attrLarge      = 32

	flagExtendedLength = 0x10
)

// noAdvertise is the community NO_ADVERTISE.
const noAdvertise = 65535<<16 | 65282

// attributes is what we want to know of a path.
type attributes struct {
	nextHop    netip.Addr // zero: none
	originator netip.Addr
	ases       []uint32 // of the AS_PATH, in any segment
	// noAdvertise: one of its communities is NO_ADVERTISE.
	noAdvertise bool
	large       []byte // its large communities, of 12 bytes each
}

// maxNotes bounds what a peer can have us carry with each path.
const maxNotes = 64

// notes returns what a netclassd of the same AS says with the path.
func (a attributes) notes(asn uint32) routing.Notes {
	var text []byte
	n := 0
	for v := a.large; len(v) >= 12 && n < maxNotes; v = v[12:] {
		if binary.BigEndian.Uint32(v) != asn || binary.BigEndian.Uint32(v[4:]) != routing.NoteGlobal {
			continue
		}
		if n++; n > 1 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(binary.BigEndian.Uint32(v[8:])), 10)
	}
	return routing.Notes(text)
}

// passed reports whether the path has been through the AS, or began at the
// router.
func (a attributes) passed(asn uint32, router netip.Addr) bool {
	return slices.Contains(a.ases, asn) || a.originator == router
}

// readAttributes reads encoded path attributes. What is malformed is as if it
// were not there.
func readAttributes(f routing.Family, encoded [][]byte) (a attributes) {
	for _, e := range encoded {
		typ, v, ok := attribute(e)
		if !ok {
			continue
		}
		switch {
		case typ == attrASPath:
			a.ases = readASPath(v)
		case typ == attrNextHop && f == routing.IPv4 && len(v) == 4:
			a.nextHop = netip.AddrFrom4([4]byte(v))
		case typ == attrCommunity:
			for ; len(v) >= 4; v = v[4:] {
				a.noAdvertise = a.noAdvertise || binary.BigEndian.Uint32(v) == noAdvertise
			}
		case typ == attrLarge:
			a.large = v
		case typ == attrOriginator && len(v) == 4:
			a.originator = netip.AddrFrom4([4]byte(v))
		case typ == attrMPReach && len(v) >= 4:
			// AFI (2), SAFI (1), length of next hop (1), next hop. Of two IPv6
			// next hops the first is the global one.
			n, hop := int(v[3]), v[4:]
			if n >= 16 && len(hop) >= 16 {
				a.nextHop = netip.AddrFrom16([16]byte(hop))
			} else if n == 4 && len(hop) >= 4 {
				a.nextHop = netip.AddrFrom4([4]byte(hop))
			}
		}
	}
	return a
}

// attribute cuts one encoded attribute into type and value.
func attribute(e []byte) (typ byte, value []byte, ok bool) {
	if len(e) < 3 {
		return 0, nil, false
	}
	head, n := 3, int(e[2])
	if e[0]&flagExtendedLength != 0 {
		if len(e) < 4 {
			return 0, nil, false
		}
		head, n = 4, int(binary.BigEndian.Uint16(e[2:]))
	}
	return e[1], e[head:], len(e) == head+n
}

// readASPath lists the AS numbers of all segments. GoBGP keeps them as four
// bytes each, whatever the peer sent.
func readASPath(v []byte) (ases []uint32) {
	for len(v) >= 2 {
		n := int(v[1])
		v = v[2:]
		if len(v) < 4*n {
			return ases
		}
		for range n {
			ases = append(ases, binary.BigEndian.Uint32(v))
			v = v[4:]
		}
	}
	return ases
}
