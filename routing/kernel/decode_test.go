package kernel

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever comes from the socket, decoding it gives a value or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 64))
	route := []byte{unix.AF_INET, 24, 0, 0, 47, 148, 0, unix.RTN_UNICAST, 0, 0, 0, 0}
	route = appendAttr(route, unix.RTA_DST, []byte{10, 1, 2, 0})
	route = appendAttr(route, unix.RTA_MULTIPATH, append([]byte{16, 0, 0, 0, 1, 0, 0, 0}, appendAttr(nil, unix.RTA_GATEWAY, []byte{10, 0, 0, 1})...))
	route = appendAttr(route, unix.RTA_METRICS, appendU32(nil, unix.RTAX_MTU, 1400))
	route = appendAttr(route, unix.RTA_VIA, []byte{10})
	f.Add(route)
	rule := append([]byte{unix.AF_INET6, 64, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0}, appendAttr(nil, unix.FRA_UID_RANGE, make([]byte, 8))...)
	f.Add(appendAttr(rule, unix.FRA_DST, make([]byte, 16)))
	datagram := finish(append(appendHeader(nil, unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS, 1), 0xff, 0xff, 0xff, 0xff), 0)
	f.Add(datagram)
	f.Fuzz(func(_ *testing.T, b []byte) {
		name := func(int) (string, bool) { return "pod0", true }
		_, _, _ = decodeRoute(b, name)
		_, _, _ = decodeRule(b)
		_, _ = decodeLink(b)
		_, _, _ = decodeAddress(b)
		var w watchRange
		_ = w.holds(b)
		for m, err := range messages(b) {
			if err != nil {
				break
			}
			_ = m.err()
			_ = m.doneErr()
		}
	})
}

// TestRouteTypes: each type has its own name, and a route for some packets only has
// none.
func TestRouteTypes(t *testing.T) {
	link := func(int) (string, bool) { return "pod0", true }
	for _, test := range []struct {
		typ, tos byte
		want     string
	}{
		{unix.RTN_UNICAST, 0, "unicast"}, {unix.RTN_LOCAL, 0, "local"}, {unix.RTN_BROADCAST, 0, "broadcast"}, {unix.RTN_ANYCAST, 0, "anycast"},
		{unix.RTN_MULTICAST, 0, "multicast"}, {unix.RTN_NAT, 0, "other"}, {unix.RTN_UNICAST, 8, "other"},
	} {
		message := []byte{unix.AF_INET, 24, 0, test.tos, 47, 148, 0, test.typ, 0, 0, 0, 0}
		r, ok, err := decodeRoute(appendAttr(message, unix.RTA_DST, []byte{10, 1, 2, 0}), link)
		if err != nil || !ok || r.Type.String() != test.want {
			t.Errorf("type %d: %s, %v, %v, want %s", test.typ, r.Type, ok, err, test.want)
		}
	}
}
