package interop

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// What a router is asked for is taken, up to its limit; what another is not asked
// for is counted and left. Neither reaches anybody else, and the mesh's prefixes
// reach neither.
func TestImports(t *testing.T) {
	l := newLAN(t)
	a, b, c, d, e := l.host(1), l.host(2), l.host(3), l.host(4), l.host(5)
	meshBIRD := b.bird(asn, birdPeer{to: a, asn: asn})
	meshFRR := c.frr(asn, frrPeer{to: a, asn: asn})
	upFRR := d.frr(64513, frrPeer{to: a, asn: asn})
	upBIRD := e.bird(asn, birdPeer{to: a, asn: asn})
	s := a.speaker()
	speak := func(limit uint32) *routing.Speak {
		want := a.speak(b, c, d, e)
		router(want, d, 64513, func(n *routing.Neighbor) { n.MaxPrefixes = limit })
		router(want, e, asn, func(n *routing.Neighbor) { n.MaxPrefixes = limit })
		for _, x := range []*host{d, e} {
			advertise(want, a, x, func(*routing.Announcement) {})
		}
		return want
	}
	none := func(x *host, f routing.Family) func() string {
		return func() string {
			// FRR tells a neighbour of another AS also what it has from it.
			if got := session(s, key(x, f)); got.Received == 0 || len(got.Paths) > 0 || !strings.HasSuffix(got.Detail, " prefixes received, none wanted") {
				return describe(got)
			}
			return ""
		}
	}
	for _, limit := range []uint32{100, 0, 1} { // also changed while the sessions are up
		set(t, s, speak(limit))
		eventually(t, 15*time.Second, up(s, 8))
		for _, f := range routing.Families {
			for _, x := range []*host{b, c} {
				eventually(t, 5*time.Second, hasPaths(s, key(x, f), routing.Path{Prefix: x.cidr(f), NextHop: x.addr(f)}))
			}
			for _, x := range []*host{d, e} {
				if limit == 0 {
					eventually(t, 5*time.Second, none(x, f))
				} else {
					eventually(t, 5*time.Second, hasPaths(s, key(x, f), routing.Path{Prefix: x.cidr(f), NextHop: x.addr(f)}))
				}
			}
		}
	}
	time.Sleep(time.Second)
	for _, f := range routing.Families {
		eventually(t, 5*time.Second, meshBIRD.has(a.cidr(f), a.addr(f)))
		eventually(t, 5*time.Second, meshFRR.has(f, a.cidr(f), a.addr(f)))
		eventually(t, 5*time.Second, upBIRD.has(vip(f), a.addr(f)))
		eventually(t, 5*time.Second, upFRR.has(f, vip(f), a.addr(f)))
		for name, got := range map[*host]string{
			b: meshBIRD.c("show", "route"), c: meshFRR.both(), d: upFRR.both(), e: upBIRD.c("show", "route"),
		} {
			for _, x := range []*host{a, b, c, d, e} {
				wanted := x == name || x == a && (name == b || name == c)
				if strings.Contains(got, x.cidr(f).String()) != wanted {
					t.Errorf("%s knows %s: %v, want %v:\n%s", name.name(), x.cidr(f), !wanted, wanted, got)
				}
			}
			if strings.Contains(got, vip(f).String()) != (name == d || name == e) {
				t.Errorf("%s and %s:\n%s", name.name(), vip(f), got)
			}
		}
	}
	for _, x := range s.Sessions() {
		if x.State != routing.Established || x.Cause != routing.CauseNone {
			t.Errorf("its limit was changed: %s", describe(x))
		}
	}
}
