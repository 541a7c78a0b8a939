package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// intoKernel makes BIRD put what it learns into its kernel.
const intoKernel = `
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
protocol kernel { ipv6 { export where source = RTS_BGP; }; }
`

// The marker of a drained node reaches every netclassd, in our AS or not, with its
// community. A BIRD and an FRR that believe all they are told, put it into their
// kernel and pass it on, leave it: to them it is a path that has come round.
// Their routes to the node and their sessions stay as they were.
func TestDrainMarker(t *testing.T) {
	l := newLAN(t)
	a, b, c, d, e := l.host(1), l.host(2), l.host(3), l.host(4), l.host(5)
	peer2 := b.birdWith(intoKernel, asn, birdPeer{to: a, asn: asn}, birdPeer{to: e, asn: 64513, export: "all"})
	peer3 := c.frr(asn, frrPeer{to: a, asn: asn}, frrPeer{to: e, asn: 64513})
	sa, sd, se := a.speaker(), d.speaker(), e.speaker()
	bare := a.speak(b, c, d)
	want := *bare
	for _, f := range routing.Families {
		want.Announce = append(want.Announce, routing.Announcement{
			Prefix: routing.DrainMarker(a.v4, f), NextHop: a.addr(f), Communities: []string{"65535:65282"},
		})
	}
	set(t, sa, bare)
	set(t, sd, d.speak(a))
	// To a node of another AS BIRD and FRR pass on what they have from us.
	other := e.speak(b, c)
	other.ASN = 64513
	set(t, se, other)
	eventually(t, 15*time.Second, up(sa, 6))
	eventually(t, 15*time.Second, up(sd, 2))
	eventually(t, 15*time.Second, up(se, 4))
	routes := func() (all string) {
		for _, x := range []*host{b, c} {
			all += x.MustIP(t, "route show") + x.MustIP(t, "-6 route show") + x.MustIP(t, "route show type unreachable")
		}
		return all
	}
	for _, f := range routing.Families {
		eventually(t, 5*time.Second, func() string {
			if all := routes(); strings.Count(all, a.cidr(f).String()+" ") != 2 {
				return all
			}
			return ""
		})
	}
	before := routes()
	set(t, sa, &want)
	for _, f := range routing.Families {
		eventually(t, 3*time.Second, hasPaths(sd, key(a, f),
			routing.Path{Prefix: routing.DrainMarker(a.v4, f), NextHop: a.addr(f), NoAdvertise: true}, routing.Path{Prefix: a.cidr(f), NextHop: a.addr(f)}))
		for _, x := range []*host{b, c, d} {
			if id := session(sa, key(x, f)).RouterID; id != x.v4 {
				t.Errorf("router ID of %s: %s, want %s", x.name(), id, x.v4)
			}
		}
	}
	time.Sleep(4 * time.Second) // more than a third of the hold time
	if after := routes(); after != before {
		t.Errorf("routes of BIRD and FRR before:\n%s\nafter:\n%s", before, after)
	}
	if why := up(sa, 6)(); why != "" {
		t.Error(why)
	}
	for _, f := range routing.Families {
		marker := routing.DrainMarker(a.v4, f)
		if out := peer2.routes(marker); strings.Contains(out, "BGP.next_hop") {
			t.Errorf("BIRD: %s", out)
		}
		if p, _ := peer3.path(f, marker); p != nil {
			t.Errorf("FRR: %+v", p)
		}
		for _, x := range []*host{b, c} {
			list := session(se, key(x, f)).Paths
			if !slices.ContainsFunc(list, func(p routing.Path) bool { return p.Prefix == a.cidr(f) }) {
				t.Errorf("%s passes nothing on", x.name())
			}
			if slices.ContainsFunc(list, func(p routing.Path) bool { return p.Prefix == marker }) {
				t.Errorf("%s passes the marker on", x.name())
			}
		}
	}
	// The end of the drain.
	set(t, sa, bare)
	for _, f := range routing.Families {
		eventually(t, 2*time.Second, hasPaths(sd, key(a, f), routing.Path{Prefix: a.cidr(f), NextHop: a.addr(f)}))
	}
}

// A marker that another program announces, without our AS number in its path,
// counts as well.
func TestMarkerOfBIRD(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	b.birdWith(fmt.Sprintf("protocol static { ipv4; route %s/32 blackhole { bgp_community.add((65535,65282)); }; }", b.v4), asn,
		birdPeer{to: a, asn: asn})
	s := a.speaker()
	set(t, s, a.speak(b))
	eventually(t, 10*time.Second, hasPaths(s, key(b, routing.IPv4),
		routing.Path{Prefix: routing.DrainMarker(b.v4, routing.IPv4), NextHop: b.v4, NoAdvertise: true}, routing.Path{Prefix: b.cidr(routing.IPv4), NextHop: b.v4}))
}

// What a node notes of itself reaches the others with its pod CIDR. To a BIRD it is
// nothing, also when it changes: the route stays where it is.
func TestNotes(t *testing.T) {
	l := newLAN(t)
	a, b, c := l.host(1), l.host(2), l.host(3)
	b.birdWith(intoKernel, asn, birdPeer{to: a, asn: asn})
	sa, sc := a.speaker(), c.speaker()
	said := func(notes ...uint32) *routing.Speak {
		want := a.speak(b, c)
		for i := range want.Announce {
			for _, n := range notes {
				want.Announce[i].Communities = append(want.Announce[i].Communities, routing.NoteCommunity(asn, n))
			}
			want.Announce[i].Communities = append(want.Announce[i].Communities, "64999:148:7", "64512:149:7")
		}
		return want
	}
	router := routing.NoteRouter(routing.SessionKey{Peer: "udm", Family: routing.IPv6})
	set(t, sa, said(routing.NoteRouters))
	set(t, sc, c.speak(a))
	path := func(f routing.Family, notes routing.Notes) func() string {
		return hasPaths(sc, key(a, f), routing.Path{Prefix: a.cidr(f), NextHop: a.addr(f), Notes: notes})
	}
	for _, f := range routing.Families {
		eventually(t, 15*time.Second, path(f, "0"))
		eventually(t, 15*time.Second, func() string {
			if all := b.MustIP(t, "route show") + b.MustIP(t, "-6 route show"); !strings.Contains(all, a.cidr(f).String()+" ") {
				return all
			}
			return ""
		})
	}
	routes := b.MustIP(t, "route show") + b.MustIP(t, "-6 route show")
	set(t, sa, said(routing.NoteRouters, router))
	for _, f := range routing.Families {
		eventually(t, 3*time.Second, path(f, routing.Notes(fmt.Sprintf("0 %d", router))))
	}
	time.Sleep(time.Second)
	if now := b.MustIP(t, "route show") + b.MustIP(t, "-6 route show"); now != routes {
		t.Errorf("routes of BIRD before:\n%s\nafter:\n%s", routes, now)
	}
}
