package interop

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
)

// Two speakers see each other's pod CIDRs over their own family's session.
func TestMesh(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	sa, sb := a.speaker(), b.speaker()
	set(t, sa, a.speak(b))
	set(t, sb, b.speak(a))
	t.Logf("established after %s", eventually(t, 10*time.Second, up(sa, 2)))
	for _, f := range routing.Families {
		eventually(t, time.Second, hasPaths(sa, routing.SessionKey{Peer: "host2", Family: f},
			routing.Path{Prefix: b.cidr(f), NextHop: b.addr(f)}))
		eventually(t, time.Second, hasPaths(sb, routing.SessionKey{Peer: "host1", Family: f},
			routing.Path{Prefix: a.cidr(f), NextHop: a.addr(f)}))
	}
	for _, x := range sa.Sessions() {
		if x.PeerRestartTime != 10*time.Second {
			t.Errorf("%s: peer's restart time is %s", x.Key, x.PeerRestartTime)
		}
	}
	time.Sleep(7 * time.Second)
	t.Logf("speaker's PSS with 2 sessions: %d KiB", pss(t, sa.Status().PID))
}

// What is listened on follows what is wanted, in place: a session stays up
// while another address comes, and a link that is made anew is bound again.
func TestListenChanges(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	sa, sb := a.speaker(), b.speaker()
	want := a.speak(b)
	want.Listen = want.Listen[:1]
	for i := range want.Neighbors {
		want.Neighbors[i].Passive = true
	}
	set(t, sa, want)
	set(t, sb, b.speak(a))
	other := b.speak(a)
	other.Listen = other.Listen[:1] // or we would dial, where nobody can call
	for i := range other.Neighbors {
		other.Neighbors[i].Passive = false
	}
	set(t, sb, other)
	v4, v6 := key(b, routing.IPv4), key(b, routing.IPv6)
	eventually(t, 5*time.Second, established(sa, v4))
	since, pid := session(sa, v4).Since, sa.Status().PID
	if x := session(sa, v6); x.State == routing.Established {
		t.Error("nobody listens, but", describe(x))
	}
	want = a.speak(b)
	for i := range want.Neighbors {
		want.Neighbors[i].Passive = true
	}
	set(t, sa, want)
	t.Logf("IPv6 after %s", eventually(t, 5*time.Second, established(sa, v6)))
	if x := session(sa, v4); x.Since != since || sa.Status().PID != pid {
		t.Error("the other session was reset:", describe(x))
	}

	l.must(a.Delete(link))
	l.must(l.sw.Veth("again", a.NS, link))
	l.must(l.sw.Enslave("again", "br0"))
	l.must(l.sw.Up("again"))
	l.must(a.Up(link))
	l.must(a.Addr(link, a.v4.String()+"/24", a.v6.String()+"/64"))
	// Its MAC address is another one, which b learns from a's first packet.
	l.must(a.Do(func() error {
		for _, f := range routing.Families {
			c, err := net.Dial("udp", netip.AddrPortFrom(b.addr(f), 9).String())
			if err != nil {
				return err
			}
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
		return nil
	}))
	t.Logf("link made anew: back after %s", eventually(t, 15*time.Second, func() string {
		if x := session(sa, v4); x.Since.Equal(since) {
			return "still the old session"
		}
		return established(sa, v4, v6)()
	}))
}

// A configured peer's address on another link opens no door.
func TestForgedLink(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	// b has the address of a third on a link of its own to a.
	l.must(a.Veth("side0", b.NS, "side0"))
	l.must(a.Up("side0"))
	l.must(b.Up("side0"))
	l.must(a.Addr("side0", "10.50.0.1/24"))
	l.must(b.Addr("side0", "10.48.0.3/32"))
	if _, err := b.IP("route add 10.50.0.1 dev side0 src 10.48.0.3"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.IP("route add 10.48.0.3 dev side0"); err != nil {
		t.Fatal(err)
	}
	s := a.speaker()
	third := &host{n: 3, v4: netip.MustParseAddr("10.48.0.3"), v6: netip.MustParseAddr("fd00:48::3")}
	want := a.speak(third)
	want.Neighbors = want.Neighbors[:1]
	want.Neighbors[0].Passive = true
	want.Listen = append(want.Listen, routing.Listen{Addr: netip.MustParseAddr("10.50.0.1"), Link: "side0"})
	set(t, s, want)
	try := func() error {
		p, err := (&host{NS: b.NS, t: t, v4: third.v4}).dialRaw(netip.MustParseAddr("10.50.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.establish(third, routing.IPv4, 9)
	}
	if err := try(); err == nil {
		t.Error("let in by the wrong link")
	}
	// The set-up is right: on its own link it is let in.
	n := &want.Neighbors[0]
	n.Link, n.Local = "side0", netip.MustParseAddr("10.50.0.1")
	set(t, s, want)
	// A new neighbour of GoBGP's is Idle for a moment, and lets nobody in then.
	eventually(t, 2*time.Second, func() string {
		if err := try(); err != nil {
			return "not let in by its link: " + err.Error()
		}
		return ""
	})
}
