package fib

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// table is one routing table of one family: a level for every prefix length in
// it, the longest first.
type table struct{ levels []level }

// level maps a prefix of one length to the first of its routes. A map for each
// length that occurs is faster than a trie here: real tables hold few lengths.
type level struct {
	bits  int
	mask  bits128
	heads map[bits128]int32
}

// note is what the index knows of a route.
type note struct {
	next int32  // of the same prefix, by metric; none: the last
	skip string // why it is passed over; empty: it is not
	gone bool   // the kernel removes it
}

const none int32 = -1

// bits128 is an address as a number; IPv4 stands in the upper bits, so that
// prefixes of both families mask alike.
type bits128 struct{ hi, lo uint64 }

func number(a netip.Addr) bits128 {
	if a.Is4() {
		b := a.As4()
		return bits128{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return bits128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func maskOf(bits int) bits128 {
	if bits <= 64 {
		return bits128{hi: ^uint64(0) << (64 - bits)}
	}
	return bits128{^uint64(0), ^uint64(0) << (128 - bits)}
}

func (b bits128) and(m bits128) bits128 { return bits128{b.hi & m.hi, b.lo & m.lo} }

func (f *FIB) indexRoutes() {
	f.notes = make([]note, len(f.routes))
	for _, family := range routing.Families {
		f.tables.Set(family, map[routing.TableID]*table{})
	}
	for i := range f.routes {
		r := &f.routes[i]
		f.notes[i] = note{next: none}
		f.notes[i].skip, f.notes[i].gone = f.unusable(r)
		tables := f.tables.Of(r.Family())
		t := tables[r.Table]
		if t == nil {
			t = &table{}
			tables[r.Table] = t
		}
		l := t.level(r.Dst.Bits())
		key := number(r.Dst.Addr()).and(l.mask)
		head, ok := l.heads[key]
		if !ok {
			head = none
		}
		if first := f.insert(head, int32(i)); first != head {
			l.heads[key] = first
		}
	}
}

// level returns the level of a prefix length, making it where it is missing.
func (t *table) level(bits int) *level {
	at, ok := slices.BinarySearchFunc(t.levels, bits, func(l level, bits int) int { return bits - l.bits })
	if !ok {
		t.levels = slices.Insert(t.levels, at, level{bits: bits, mask: maskOf(bits), heads: map[bits128]int32{}})
	}
	return &t.levels[at]
}

// insert puts route i into the chain of its prefix, behind those of the same or
// a lower metric, and returns the chain's head.
func (f *FIB) insert(head, i int32) int32 {
	metric := f.routes[i].Metric
	if head == none || f.routes[head].Metric > metric {
		f.notes[i].next = head
		return i
	}
	at := head
	for n := f.notes[at].next; n != none && f.routes[n].Metric <= metric; n = f.notes[at].next {
		at = n
	}
	f.notes[i].next = f.notes[at].next
	f.notes[at].next = i
	return head
}

// unusable says why the kernel passes over a route whatever the packet, and
// whether it is not even there any more. A route over several next hops is taken
// to have a living one: the picture shows only its first.
func (f *FIB) unusable(r *routing.Route) (why string, gone bool) {
	if r.Type.Reject() || r.Multipath {
		return "", false
	}
	link := f.links[r.Link]
	switch {
	case r.Type == routing.Unicast && link != nil && !link.Up:
		return r.Link + " is down", true
	case r.Dead:
		return "it is dead", false
	case (r.LinkDown || link != nil && !link.Carrier) && f.ignoreLinkDown(r.Link):
		return r.Link + " has no carrier", false
	}
	return "", false
}

// find returns the route of the table that answers the query, or none.
func (f *FIB) find(t *table, q *query) int32 {
	for i := range t.levels {
		l := &t.levels[i]
		head, ok := l.heads[q.number.and(l.mask)]
		if !ok {
			continue
		}
		var found int32
		if q.family == routing.IPv4 {
			found = f.select4(head, q)
		} else {
			found = f.select6(head, q)
		}
		if found != none {
			return found
		}
	}
	return none
}

// select4 picks among the routes of one prefix as fib_table_lookup does: the
// first usable one. A reject route answers whatever link was asked for.
func (f *FIB) select4(head int32, q *query) int32 {
	for i := head; i != none; i = f.notes[i].next {
		r := &f.routes[i]
		if r.Type.Reject() {
			return i
		}
		if f.notes[i].skip == "" && (q.via == "" || r.Link == q.via || r.Multipath) {
			return i
		}
	}
	return none
}

// select6 picks among the routes of one prefix as find_rr_leaf does. Those of
// the lowest metric are tried first, and one over the link asked for wins among
// them; when none is usable, all the others compete as if they had one metric.
// A route whose link is down is not there at all: the kernel has removed it.
func (f *FIB) select6(head int32, q *query) int32 {
	best, bestScore := none, -1
	var lowest uint32
	started, others := false, false
	for i := head; i != none; i = f.notes[i].next {
		if f.notes[i].gone {
			continue
		}
		switch metric := f.routes[i].Metric; {
		case !started:
			lowest, started = metric, true
		case metric != lowest && !others:
			if best != none {
				return best
			}
			others = true
		}
		if s := f.score(i, q); s > bestScore {
			best, bestScore = i, s
		}
	}
	return best
}

// score rates an IPv6 route as rt6_score_route does; negative: it cannot be
// used. Reject routes live on the loopback link.
func (f *FIB) score(i int32, q *query) int {
	if f.notes[i].skip != "" {
		return -1
	}
	r := &f.routes[i]
	link := r.Link
	if r.Type.Reject() {
		link = loopback
	}
	switch {
	case q.via == "" || link == q.via || r.Multipath:
		return 1
	case q.strict:
		return -1
	}
	return 0
}

// covering returns every route of the table whose prefix holds the destination,
// the most specific first, then by metric.
func (f *FIB) covering(t *table, q *query) []int32 {
	var all []int32
	for i := range t.levels {
		if head, ok := t.levels[i].heads[q.number.and(t.levels[i].mask)]; ok {
			for ; head != none; head = f.notes[head].next {
				all = append(all, head)
			}
		}
	}
	return all
}
