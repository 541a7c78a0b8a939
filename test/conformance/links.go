package conformance

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// A link that is set down takes its routes of every table with it, and its IPv6
// addresses. Up again, only the connected routes of what is left come back.
func linkDown(h *harness) {
	h.fill()
	h.must(h.s.SetUp("pod0", false))
	h.fenceOnly()
	h.routes(routing.MainID)
	if l := h.dump().Link("pod0"); l.Up || l.Usable() {
		h.Errorf("the link that is down is %+v", l)
	}
	if got := h.addrs(); !slices.Equal(got, []string{"10.48.0.1/24"}) {
		h.Errorf("addresses while down: %v", got)
	}
	h.must(h.s.SetUp("pod0", true))
	h.fenceOnly()
	h.routes(routing.MainID, "10.48.0.0/24 dev pod0 src 10.48.0.1 metric 0")
}

// A flap leaves the link and its IPv4 address as they were, and the routes gone.
func flap(h *harness) {
	h.fill()
	before := h.dump().Link("pod0")
	h.must(h.s.SetUp("pod0", false))
	h.must(h.s.SetUp("pod0", true))
	h.eventually(func() error {
		if after := h.dump().Link("pod0"); after.Index != before.Index || after.Up != before.Up || after.Carrier != before.Carrier {
			return fmt.Errorf("after a flap the link is %+v, was %+v", after, before)
		}
		return nil
	})
	h.fenceOnly()
}

// Without carrier everything stays, marked.
func carrier(h *harness) {
	h.fill()
	h.must(h.s.SetCarrier("pod0", false))
	h.full(" linkdown")
	if l := h.dump().Link("pod0"); !l.Up || l.Carrier {
		h.Errorf("without carrier the link is %+v", l)
	}
	h.do(del("10.2.0.0/16 via 10.48.0.2 dev pod0"))
	h.do(add("10.2.0.0/16 via 10.48.0.2 dev pod0")) // still accepted
	h.must(h.s.SetCarrier("pod0", true))
	h.full("")
}

func linkDeleted(h *harness) {
	h.fill()
	h.must(h.s.DeleteLink("pod0"))
	h.fenceOnly()
	if l := h.dump().Link("pod0"); l != nil {
		h.Errorf("deleted link: %+v", l)
	}
	h.do(del("10.2.0.0/16 via 10.48.0.2 dev pod0"))
	h.must(h.s.AddLink("pod0"))
	h.addr("pod0", "10.48.0.1/24")
	h.do(add("10.2.0.0/16 via 10.48.0.2 dev pod0"))
}

// Deleting an address: main's IPv4 routes with that source go; another table
// keeps its IPv4 route with the dead source, and its IPv6 one without any.
func addressDeleted(h *harness) {
	h.addr("pod0", "10.49.0.1/24")
	h.addr("pod0", "fd00:49::1/64")
	h.do(
		add("10.2.0.0/16 dev pod0 src 10.49.0.1"), add("fd00:2::/64 dev pod0 src fd00:49::1"),
		add("10.3.0.0/16 dev pod0 src 10.49.0.1 table 254"), add("fd00:3::/64 dev pod0 src fd00:49::1 table 254"),
		add("10.4.0.0/16 via 10.49.0.2 dev pod0"), add("fd00:4::/64 via fd00:49::2 dev pod0"),
	)
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("10.49.0.1/24")))
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("fd00:49::1/64")))
	h.table("10.2.0.0/16 dev pod0 src 10.49.0.1 metric 10", "fd00:2::/64 dev pod0 metric 10",
		"10.4.0.0/16 via 10.49.0.2 dev pod0 metric 10", "fd00:4::/64 via fd00:49::2 dev pod0 metric 10")
	h.routes(routing.MainID, "10.48.0.0/24 dev pod0 src 10.48.0.1 metric 0", "fd00:48::/64 dev pod0 metric 256",
		"fd00:3::/64 dev pod0 metric 10")
}

// With its last IPv4 address a link loses its IPv4 routes of every table.
func lastAddressDeleted(h *harness) {
	h.fill()
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("10.48.0.1/24")))
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("fd00:48::1/64")))
	h.table("unreachable 10.0.0.0/8 metric 4000",
		"fd00:48::/64 dev pod0 metric 10", "fd00:2::/64 via fd00:48::2 dev pod0 metric 10", "unreachable fd00::/8 metric 4000")
}

// IPv6 keeps reject routes on lo, IPv4 on no link.
func loopbackDown(h *harness) {
	h.fill()
	h.must(h.s.SetUp("lo", false))
	h.table("10.48.0.0/24 dev pod0 metric 10", "10.2.0.0/16 via 10.48.0.2 dev pod0 metric 10", "unreachable 10.0.0.0/8 metric 4000",
		"fd00:48::/64 dev pod0 metric 10", "fd00:2::/64 via fd00:48::2 dev pod0 metric 10")
	h.must(h.s.SetUp("lo", true))
	h.do(add("unreachable fd00::/8 metric 4000"))
	h.full("")
}
