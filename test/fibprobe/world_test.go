package fibprobe

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// world makes random rules, routes and flows of one family. Addresses are few,
// so that prefixes nest and flows hit them.
type world struct {
	*rand.Rand
	family routing.Family
	hops   int
}

var (
	worldLinks  = []string{"a0", "a1", "a2", "a3"}
	worldTables = []string{"main", "100", "101", "1000", "102"}
	lengths4    = []int{0, 8, 14, 15, 16, 22, 23, 24, 31, 32}
	lengths6    = []int{0, 8, 30, 32, 46, 48, 63, 64, 127, 128}
	metrics     = []uint32{10, 20, 2000, 4000, 4294967295}
)

func pick[T any](w *world, from []T) T { return from[w.IntN(len(from))] }

// own are the host's addresses among those that rules and routes are about.
func own(f routing.Family) []netip.Addr {
	if f == routing.IPv4 {
		return []netip.Addr{netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("10.0.3.0")}
	}
	return []netip.Addr{netip.MustParseAddr("fd00:1:1::1"), netip.MustParseAddr("fd00:0:3::2")}
}

func (w *world) addr() netip.Addr {
	a, b, c := w.IntN(4), w.IntN(4), w.IntN(3)
	if w.IntN(12) == 0 {
		a = 99
	}
	if w.family == routing.IPv4 {
		return netip.AddrFrom4([4]byte{10, byte(a), byte(b), byte(c)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%x:%x::%x", a, b, c))
}

func (w *world) prefix() netip.Prefix {
	lengths := lengths4
	if w.family == routing.IPv6 {
		lengths = lengths6
	}
	p, _ := w.addr().Prefix(pick(w, lengths))
	return p
}

// gateway returns a next hop on the link that no other route has.
func (w *world) gateway(link string) string {
	w.hops++
	if w.family == routing.IPv4 {
		return fmt.Sprintf("172.16.%c.%d", link[1], 2+w.hops%250)
	}
	return fmt.Sprintf("fd01:%c::%x", link[1], 2+w.hops)
}

// routes returns routes of several metrics for one prefix. The first often has
// a link of its own, so that the others are asked when that link fails.
func (w *world) routes() []string {
	dst, table := w.prefix(), pick(w, worldTables[:4])
	var all []string
	for _, metric := range metrics {
		if w.IntN(2) == 0 {
			continue
		}
		link := pick(w, worldLinks)
		if len(all) == 0 && w.IntN(2) == 0 {
			link = "a3"
		}
		all = append(all, w.route(fmt.Sprintf(" %s table %s metric %d", dst, table, metric), link))
	}
	return all
}

func (w *world) route(tail, link string) string {
	switch w.IntN(12) {
	case 0, 1:
		return "route add throw" + tail
	case 2:
		return "route add unreachable" + tail
	case 3:
		return "route add blackhole" + tail
	case 4:
		return "route add prohibit" + tail
	case 5, 6:
		return "route add" + tail + " dev " + link
	}
	return "route add" + tail + " via " + w.gateway(link) + " dev " + link
}

func (w *world) rule() string {
	r := fmt.Sprintf("rule add priority %d", 50+10*w.IntN(8))
	if w.IntN(6) == 0 {
		r += " not"
	}
	if w.IntN(2) == 0 {
		r += " from " + w.prefix().String()
	}
	if w.IntN(3) == 0 {
		r += " to " + w.prefix().String()
	}
	if w.IntN(5) == 0 {
		r += " iif " + pick(w, []string{"lo", "a0", "a1", "absent"})
	}
	if w.IntN(6) == 0 {
		r += " oif " + pick(w, worldLinks)
	}
	if w.IntN(5) == 0 {
		r += fmt.Sprintf(" fwmark %d/%d", w.IntN(4), 1+w.IntN(3))
	}
	switch w.IntN(17) {
	case 0:
		return r + " unreachable"
	case 1:
		return r + " blackhole"
	case 2:
		return r + " prohibit"
	case 3:
		return r + " nop"
	case 4, 5, 6:
		return r + fmt.Sprintf(" goto %d", 60+10*w.IntN(9))
	case 7, 8, 9, 10:
		return r + fmt.Sprintf(" lookup %s suppress_prefixlength %d", pick(w, worldTables), pick(w, []int{0, 8, 15, 24, 32}))
	}
	return r + " lookup " + pick(w, worldTables)
}

// flow makes a flow that RTM_GETROUTE accepts: a packet that arrives has a
// source that is not ours, one that is sent has one of ours or none.
func (w *world) flow() fib.Flow {
	f := fib.Flow{Dst: w.addr()}
	if w.IntN(3) == 0 {
		f.Mark = uint32(w.IntN(4))
	}
	if w.IntN(2) == 0 {
		f.IIF = pick(w, worldLinks[:2])
		for f.Src = w.addr(); f.Src == own(w.family)[0] || f.Src == own(w.family)[1]; {
			f.Src = w.addr()
		}
		return f
	}
	if w.IntN(3) > 0 {
		f.Src = pick(w, own(w.family))
	}
	if w.IntN(3) == 0 {
		f.OIF = pick(w, worldLinks)
	}
	return f
}
