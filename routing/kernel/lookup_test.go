package kernel_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// TestLookup asks about every kind of answer, in both families, in one call.
func TestLookup(t *testing.T) {
	n := newNode(t)
	n.settled(t)
	must(t, n.Sysctl("ipv4/ip_forward", "1"))
	must(t, n.Sysctl("ipv6/conf/all/forwarding", "1"))
	for line := range strings.Lines(`
		-4 rule add priority 1001 from 10.244.0.0/16 lookup 47
		-6 rule add priority 1000 from fd00:10:244::/48 lookup 47
		-4 route add 10.244.2.0/24 via 10.48.0.2 table 47 mtu 1400
		-6 route add fd00:10:244:2::/64 via fd00:48::2 table 47 mtu 1400
		-4 route add unreachable 10.244.0.0/16 table 47 metric 4000
		-6 route add unreachable fd00:10:244::/48 table 47 metric 4000
		-4 route add blackhole 10.9.0.0/16
		-6 route add blackhole fd00:9::/32
		-4 route add prohibit 10.8.0.0/16
		-6 route add prohibit fd00:8::/32
		-4 rule add priority 900 fwmark 0x10/0x10 to 10.244.0.0/16 unreachable
		-6 rule add priority 900 fwmark 0x10/0x10 to fd00:10:244::/48 unreachable
	`) {
		if line = strings.TrimSpace(line); line != "" {
			n.MustIP(t, line)
		}
	}
	var flows []routing.Flow
	var want []string
	ask := func(dst, src, iif string, mark uint32, answer string) {
		f := routing.Flow{Dst: netip.MustParseAddr(dst), IIF: iif, Mark: mark}
		if src != "" {
			f.Src = netip.MustParseAddr(src)
		}
		flows, want = append(flows, f), append(want, answer)
	}
	for range 100 { // more than one batch
		ask("10.244.2.5", "10.244.1.7", "pod0", 0, "pod0 via 10.48.0.2 table 47 mtu 1400")
		ask("fd00:10:244:2::5", "fd00:10:244:1::7", "pod0", 0, "pod0 via fd00:48::2 table 47 mtu 1400")
	}
	ask("10.244.9.5", "10.244.1.7", "pod0", 0, "unreachable EHOSTUNREACH")
	ask("fd00:10:244:9::5", "fd00:10:244:1::7", "pod0", 0, "unreachable EHOSTUNREACH")
	ask("10.244.2.5", "10.244.1.7", "pod0", 0x10, "no route ENETUNREACH")
	ask("fd00:10:244:2::5", "fd00:10:244:1::7", "pod0", 0x10, "no route ENETUNREACH")
	ask("10.48.0.2", "", "", 0, "pod0 table 254 src 10.48.0.1")
	ask("fd00:48::2", "", "", 0, "pod0 table 254 src fd00:48::1")
	ask("10.48.0.1", "", "", 0, "local table 255 src 10.48.0.1")
	ask("10.9.0.1", "", "", 0, "blackhole EINVAL")
	ask("10.8.0.1", "", "", 0, "prohibit EACCES")
	ask("fd00:8::1", "", "", 0, "prohibit EACCES")
	ask("192.0.2.1", "", "", 0, "no route ENETUNREACH")
	ask("2001:db8::1", "", "", 0, "no route ENETUNREACH")
	ask("10.244.2.5", "10.244.1.7", "gone0", 0, "no answer (no link gone0)")
	ask("10.244.2.5", "", "pod0", 0, "no answer (a packet that arrives has a source)")
	ask("10.244.2.5", "fd00::1", "", 0, "no answer (source and destination are of two families)")
	flows, want = append(flows, routing.Flow{}), append(want, "no answer (no destination)")

	answers, err := n.k.Lookup(t.Context(), flows)
	must(t, err)
	for i, a := range answers {
		if got := describe(a); got != want[i] {
			t.Errorf("%+v: got %q, want %q", flows[i], got, want[i])
		}
	}
	if none, err := n.k.Lookup(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("no question: %v, %v", none, err)
	}
	must(t, n.k.Close())
	if _, err := n.k.Lookup(t.Context(), flows); err == nil {
		t.Error("a closed kernel answers")
	}
}

func describe(a routing.Answer) string {
	words := []string{a.String()}
	if a.Outcome == routing.OutcomeNoAnswer {
		return words[0]
	}
	if a.Code != "" {
		words = append(words, a.Code)
	}
	if a.Table != 0 {
		words = append(words, "table "+strconv.Itoa(int(a.Table)))
	}
	if a.Src.IsValid() {
		words = append(words, "src "+a.Src.String())
	}
	if a.MTU != 0 {
		words = append(words, "mtu "+strconv.Itoa(int(a.MTU)))
	}
	return strings.Join(words, " ")
}
