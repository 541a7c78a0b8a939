package interop

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/speaker"
)

// many are n prefixes of 11.0.0.0/8, announced to the mesh, each a message.
func (h *host) many(n int) []routing.Announcement {
	list := make([]routing.Announcement, n)
	for i := range list {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(11<<24+i<<8))
		list[i] = routing.Announcement{Prefix: netip.PrefixFrom(netip.AddrFrom4(b), 24), NextHop: h.v4}
	}
	return list
}

func unsent(s *speaker.Speaker, key routing.SessionKey) func() string {
	return func() string {
		if x := session(s, key); x.State != routing.Established || x.Unsent > 0 {
			return fmt.Sprintf("%s, %d unsent", describe(x), x.Unsent)
		}
		return ""
	}
}

// What we said has left soon after the order is carried out where the peer takes
// it; where its daemon reads nothing and its kernel takes no more, it counts as
// unsent until the daemon reads again.
func TestUnsent(t *testing.T) {
	for _, program := range []string{"BIRD", "FRR"} {
		t.Run(program, func(t *testing.T) {
			l := newLAN(t)
			a, b := l.host(1), l.host(2)
			var pid int
			var has func() string
			if program == "BIRD" {
				peer := b.bird(asn, birdPeer{to: a, asn: asn, options: "hold time 90;"})
				pid, has = peer.pid, peer.has(prefix("11.0.0.0/24"), a.v4)
			} else {
				peer := b.frr(asn, frrPeer{to: a, asn: asn, options: []string{"timers 30 90"}})
				pid, has = peer.pid, peer.has(routing.IPv4, prefix("11.0.0.0/24"), a.v4)
			}
			s := a.speaker()
			want := a.speak(b)
			for i := range want.Neighbors {
				want.Neighbors[i].Timers.Hold = 90 * time.Second
			}
			set(t, s, want)
			k := key(b, routing.IPv4)
			eventually(t, 15*time.Second, up(s, 2))
			eventually(t, time.Second, unsent(s, k))
			few := *want
			few.Announce = append(a.many(1), want.Announce...)
			set(t, s, &few)
			t.Logf("one prefix has left %s after the order", eventually(t, time.Second, unsent(s, k)))
			eventually(t, 3*time.Second, has)

			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			running := false
			defer func() {
				if !running {
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
			}()
			flood := *want
			flood.Announce = append(a.many(20_000), want.Announce...)
			set(t, s, &flood)
			if x := session(s, k); x.Unsent == 0 {
				t.Error("acknowledged order: nothing unsent")
			}
			time.Sleep(3 * time.Second)
			for range 20 {
				if x := session(s, k); x.Unsent == 0 || x.State != routing.Established {
					t.Fatal("nothing is read, and all has left: ", describe(x))
				}
				time.Sleep(50 * time.Millisecond)
			}
			// The other session says nothing new.
			if why := unsent(s, key(b, routing.IPv6))(); why != "" {
				t.Error(why)
			}
			t.Logf("%d unsent while nothing is read", session(s, k).Unsent)
			running = true
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			t.Logf("left %s after reading began", eventually(t, 5*time.Second, unsent(s, k)))
			set(t, s, want)
			t.Logf("20,000 withdrawals have left after %s", eventually(t, 5*time.Second, unsent(s, k)))
		})
	}
}

// A peer whose kernel has gone acknowledges nothing, also of a little; the end of
// the session is the end of that.
func TestUnsentCut(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	b.bird(asn, birdPeer{to: a, asn: asn})
	s := a.speaker()
	want := a.speak(b)
	set(t, s, want)
	eventually(t, 10*time.Second, up(s, 2))
	for _, f := range routing.Families {
		eventually(t, time.Second, unsent(s, key(b, f)))
	}
	l.must(l.sw.Down("port2"))
	bare := *want
	bare.Announce = nil
	set(t, s, &bare)
	for begun := time.Now(); time.Since(begun) < 4*time.Second; time.Sleep(50 * time.Millisecond) {
		for _, f := range routing.Families {
			if x := session(s, key(b, f)); x.State != routing.Established || x.Unsent == 0 {
				t.Fatalf("after %s: %s, %d unsent", time.Since(begun), describe(x), x.Unsent)
			}
		}
	}
	eventually(t, 10*time.Second, func() string {
		for _, f := range routing.Families {
			if x := session(s, key(b, f)); x.State == routing.Established || x.Unsent > 0 || x.RouterID.IsValid() {
				return fmt.Sprintf("%s, %d unsent, router ID %s", describe(x), x.Unsent, x.RouterID)
			}
		}
		return ""
	})
}

// A peer that never reads, with little room: every order counts, and the answer
// to a withdrawal does not come before its bytes have gone.
func TestUnsentSlow(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(9)
	s := a.speaker()
	want := a.speak(b)
	want.Neighbors = want.Neighbors[:1]
	want.Neighbors[0].Passive = true
	set(t, s, want)
	dial := func() (*rawPeer, error) {
		var conn net.Conn
		err := b.Do(func() (err error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: b.v4.AsSlice()}, Control: func(_, _ string, c syscall.RawConn) error {
				var err error
				_ = c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048) })
				return err
			}}
			conn, err = d.Dial("tcp", netip.AddrPortFrom(a.v4, 179).String())
			return err
		})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		p := &rawPeer{t, conn}
		return p, p.establish(b, routing.IPv4, 90)
	}
	var p *rawPeer
	eventually(t, 10*time.Second, func() string { // a speaker that has just begun may hang up
		var err error
		if p, err = dial(); err != nil {
			return err.Error()
		}
		return ""
	})
	k := key(b, routing.IPv4)
	eventually(t, 2*time.Second, unsent(s, k))
	if x := session(s, k); x.RouterID != b.v4 {
		t.Errorf("router ID %s", x.RouterID)
	}
	flood := *want
	flood.Announce = a.many(500)
	set(t, s, &flood)
	time.Sleep(time.Second)
	full := session(s, k).Unsent
	if full == 0 {
		t.Fatal("nothing is read, and all has left")
	}
	set(t, s, want) // a withdrawal behind it
	seen := 0
	for {
		typ, body, err := p.read()
		if err != nil {
			t.Fatal(err)
		}
		if typ != 2 {
			continue
		}
		// The last of 500 withdrawals is the end of what we have to say.
		if binary.BigEndian.Uint16(body) > 0 {
			seen += int(binary.BigEndian.Uint16(body)) / 4
		}
		if seen < 400 && unsent(s, k)() == "" {
			t.Fatalf("%d withdrawals read, and all has left", seen)
		}
		if seen >= 500 {
			break
		}
	}
	t.Logf("%d unsent with nothing read; all left %s after the last was read", full, eventually(t, 2*time.Second, unsent(s, k)))
}
