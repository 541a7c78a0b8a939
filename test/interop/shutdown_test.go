package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// GRACEFUL_SHUTDOWN comes to a live announcement and goes from it again, at FRR
// and BIRD, with no withdrawal in between.
func TestGracefulShutdown(t *testing.T) {
	l := newLAN(t)
	a, b, c, raw := l.host(1), l.host(2), l.host(3), l.host(9)
	atFRR := b.frr(64513, frrPeer{to: a, asn: asn})
	atBIRD := c.bird(64513, birdPeer{to: a, asn: asn})
	s := a.speaker()
	speak := func(communities ...string) *routing.Speak {
		want := a.speak(b, c, raw)
		for _, x := range []*host{b, c, raw} {
			as := uint32(64513)
			if x == raw {
				as = asn // it speaks as a member of our AS
			}
			router(want, x, as, func(n *routing.Neighbor) { n.Passive = x == raw })
			advertise(want, a, x, func(p *routing.Announcement) { p.Communities = communities })
		}
		return want
	}
	set(t, s, speak("64512:7"))
	var wire *rawPeer
	eventually(t, 5*time.Second, func() string {
		p, err := raw.dialRaw(a.v4)
		if err == nil {
			err = p.establish(raw, routing.IPv4, 90)
		}
		if err != nil {
			return err.Error()
		}
		wire = p
		return ""
	})
	defer wire.Close()
	for _, f := range routing.Families {
		eventually(t, 15*time.Second, established(s, key(b, f), key(c, f)))
		eventually(t, 5*time.Second, atFRR.has(f, vip(f), a.addr(f)))
		eventually(t, 5*time.Second, atBIRD.has(vip(f), a.addr(f)))
	}
	withdrawals := func() string {
		var all string
		for _, f := range routing.Families {
			out := atBIRD.c("show", "protocols", "all", fmt.Sprintf("%s_%d", a.name(), f))
			m := regexp.MustCompile(`Import withdraws: +(\d+)`).FindStringSubmatch(out)
			if m == nil {
				t.Fatal(out)
			}
			all += m[1] + " "
		}
		return all
	}
	before := withdrawals()
	for _, step := range []struct {
		communities []string
		frr, bird   string
	}{
		{[]string{"64512:7", "graceful-shutdown"}, "64512:7 graceful-shutdown", "(64512,7) (65535,0)"},
		{[]string{"64512:7"}, "64512:7", "(64512,7)\n"},
		{[]string{"GRACEFUL-SHUTDOWN"}, "graceful-shutdown", "(65535,0)"},
		{nil, "", ""},
	} {
		set(t, s, speak(step.communities...))
		for _, f := range routing.Families {
			eventually(t, 2*time.Second, func() string {
				p, why := atFRR.path(f, vip(f))
				if p == nil {
					t.Fatalf("%v: FRR has lost it: %s", step.communities, why)
				}
				if p.Community.String != step.frr {
					return fmt.Sprintf("%v: FRR has %q", step.communities, p.Community.String)
				}
				return ""
			})
			eventually(t, 2*time.Second, func() string {
				out := atBIRD.routes(vip(f))
				if !strings.Contains(out, "BGP.next_hop") {
					t.Fatalf("%v: BIRD has lost it: %s", step.communities, out)
				}
				if step.bird == "" && strings.Contains(out, "BGP.community") || step.bird != "" && !strings.Contains(out, "BGP.community: "+step.bird) {
					return out
				}
				return ""
			})
		}
	}
	if after := withdrawals(); after != before {
		t.Errorf("BIRD counted withdrawals: %s before, %s after", before, after)
	}
	// And on the wire: five announcements, no withdrawal.
	for announced := 0; announced < 5; {
		typ, body, err := wire.read()
		if err != nil {
			t.Fatalf("%d announcements: %v", announced, err)
		}
		if typ != 2 || len(body) == 4 { // an End-of-RIB is empty
			continue
		}
		if body[0] != 0 || body[1] != 0 {
			t.Fatalf("a withdrawal: %x", body)
		}
		announced++
	}
}
