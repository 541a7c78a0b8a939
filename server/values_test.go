package server

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

func TestClockSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wall, elapsed, want time.Duration }{
		{time.Hour, time.Hour, 0},
		{time.Hour + 300*time.Millisecond, time.Hour, 0}, // hastened by NTP
		{time.Hour - 300*time.Millisecond, time.Hour, 0},
		{20000 * 24 * time.Hour, time.Minute, 20000*24*time.Hour - time.Minute}, // it had no battery
		{-time.Hour, time.Minute, -time.Hour - time.Minute},                     // set back
		{90 * time.Minute, 30*time.Minute + 400*time.Millisecond, time.Hour},    // whole seconds, whatever NTP does later
	} {
		if got := clockSet(c.wall, c.elapsed); got != c.want {
			t.Errorf("clockSet(%v, %v) is %v, want %v", c.wall, c.elapsed, got, c.want)
		}
	}
}

// TestPlainly: what Go's packages say of a failed connection is put in plain words,
// and nothing else is touched.
func TestPlainly(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"dial tcp4 10.48.0.1:0->10.48.0.2:179: i/o timeout":                                  "connect to 10.48.0.2:179: no answer",
		"dial tcp6 [fd00:48::1]:0->[fd00:48::2]:179: connect: connection refused":            "connect to [fd00:48::2]:179: connection refused",
		"read tcp 10.48.0.1:179->10.48.0.2:33211: read: connection reset by peer":            "read from 10.48.0.2:33211: connection reset by peer",
		`Get "https://10.0.0.1:6443/api": dial tcp 10.0.0.1:6443: connect: no route to host`: `Get "https://10.0.0.1:6443/api": connect to 10.0.0.1:6443: no route to host`,
		"write the lease: context deadline exceeded":                                         "write the lease: it took too long",
		"link pod0 has no carrier":                                                           "link pod0 has no carrier",
		"add route 10.1.0.0/16 via 10.48.0.2 dev pod0: network is unreachable":               "add route 10.1.0.0/16 via 10.48.0.2 dev pod0: network is unreachable",
	} {
		if got := plainly(said); got != want {
			t.Errorf("of %q: %q, want %q", said, got, want)
		}
	}
}

// TestRouteTypesHaveOneOrder: a type is shown by its own name.
func TestRouteTypesHaveOneOrder(t *testing.T) {
	for typ := routing.Unicast; typ <= routing.Multicast; typ++ {
		if got, want := routeType(typ).String(), "ROUTE_TYPE_"+strings.ToUpper(typ.String()); got != want {
			t.Errorf("%s is shown as %s", typ, got)
		}
	}
}
