package interop

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/speaker"
)

// nobody is a neighbour that is not there: with it, BIRD and FRR listen.
var nobody = &host{n: 99, v4: netip.MustParseAddr("10.48.0.99"), v6: netip.MustParseAddr("fd00:48::99")}

// says reports what differs from the speaker complaining of exactly these.
func says(s *speaker.Speaker, want ...string) func() string {
	return func() string {
		if got := s.Status().Errors; !slices.Equal(got, want) {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	}
}

// letsIn reports why another host cannot connect to the port of each family.
func letsIn(a, from *host) func() string {
	return func() string {
		for _, f := range routing.Families {
			p, err := from.dialRaw(a.addr(f))
			if err != nil {
				return err.Error()
			}
			_ = p.Close()
		}
		return ""
	}
}

// Another program has the port, on all addresses or on ours: who it is, is said
// plainly; every session comes up all the same, since we dial, also those in
// which the other side should; and once the other has gone, we listen.
func TestPortTaken(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(a *host) (pid int, command string, leave func())
	}{
		{"BIRD", func(a *host) (int, string, func()) {
			pid := a.bird(asn, birdPeer{to: nobody, asn: asn}).pid
			return pid, "bird", func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
		}},
		{"FRR", func(a *host) (int, string, func()) {
			pid := a.frr(asn, frrPeer{to: nobody, asn: asn}).pid
			return pid, "bgpd", func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
		}},
		{"exact addresses", func(a *host) (int, string, func()) {
			var open []net.Listener
			for _, f := range routing.Families {
				if err := a.Do(func() error {
					ln, err := net.Listen("tcp", netip.AddrPortFrom(a.addr(f), 179).String())
					open = append(open, ln)
					return err
				}); err != nil {
					a.t.Fatal(err)
				}
			}
			comm, _ := os.ReadFile("/proc/self/comm")
			return os.Getpid(), strings.TrimSpace(string(comm)), func() {
				for _, ln := range open {
					_ = ln.Close()
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLAN(t)
			a, b, d := l.host(3), l.host(1), l.host(2)
			pid, command, leave := c.take(a)
			// Both of lower addresses: they are to dial, and do, into the arms of the
			// other program.
			b.bird(asn, birdPeer{to: a, asn: asn})
			d.frr(asn, frrPeer{to: a, asn: asn})
			s := a.speaker()
			want := a.speak(b, d)
			set(t, s, want)
			var busy []string
			for _, f := range routing.Families {
				busy = append(busy, fmt.Sprintf("listen on %s: address already in use by %s (pid %d)", netip.AddrPortFrom(a.addr(f), 179), command, pid))
			}
			eventually(t, 2*time.Second, says(s, busy...))
			t.Logf("sessions up after %s", eventually(t, 15*time.Second, up(s, 4)))
			since := s.Sessions()

			leave()
			t.Logf("listening %s after the other had gone", eventually(t, 2*time.Second, says(s)))
			eventually(t, time.Second, letsIn(a, b))
			for i, x := range s.Sessions() {
				if x.State != routing.Established || !x.Since.Equal(since[i].Since) {
					t.Errorf("was %s, is %s", describe(since[i]), describe(x))
				}
			}
		})
	}
}

// Who has the port may change while it is taken.
func TestPortTakenByAnother(t *testing.T) {
	l := newLAN(t)
	a := l.host(1)
	first := a.bird(asn, birdPeer{to: nobody, asn: asn})
	s := a.speaker()
	set(t, s, a.speak())
	named := func(pid int) func() string {
		return func() string {
			errs := s.Status().Errors
			if len(errs) != 2 || !strings.HasSuffix(errs[0], fmt.Sprintf("by bird (pid %d)", pid)) || !strings.HasSuffix(errs[1], fmt.Sprintf("by bird (pid %d)", pid)) {
				return fmt.Sprintf("%q, want pid %d", errs, pid)
			}
			return ""
		}
	}
	eventually(t, 2*time.Second, named(first.pid))
	// The speaker sleeps, so that it does not take the port in between.
	pid := s.Status().PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(first.pid, syscall.SIGKILL)
	eventually(t, 2*time.Second, func() string {
		if letsIn(a, a)() == "" {
			return "it still listens"
		}
		return ""
	})
	next := a.bird(asn, birdPeer{to: nobody, asn: asn})
	eventually(t, 2*time.Second, letsIn(a, a))
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	t.Logf("named after %s", eventually(t, 4*time.Second, named(next.pid)))
}

// Speakers with different exact addresses share the port.
func TestPortShared(t *testing.T) {
	l := newLAN(t)
	a, b, c := l.host(1), l.host(2), l.host(3)
	// a's other address belongs to a BIRD of its own.
	other := &host{NS: a.NS, t: t, n: 11, v4: netip.MustParseAddr("10.48.0.11"), v6: netip.MustParseAddr("fd00:48::11")}
	l.must(a.Addr(link, "10.48.0.11/24", "fd00:48::11/64"))
	local := other.birdWith("", 64513, birdPeer{to: c, asn: 64513, options: "strict bind on;"})
	peer := c.bird(64513, birdPeer{to: other, asn: 64513, options: "strict bind on;"})
	b.bird(asn, birdPeer{to: a, asn: asn})
	s := a.speaker()
	set(t, s, a.speak(b))
	t.Logf("sessions up after %s", eventually(t, 15*time.Second, up(s, 2)))
	for _, f := range routing.Families {
		eventually(t, 15*time.Second, peer.has(other.cidr(f), other.addr(f)))
		eventually(t, 15*time.Second, local.has(c.cidr(f), c.addr(f)))
	}
	if why := says(s)(); why != "" {
		t.Error(why)
	}
	if why := letsIn(a, b)(); why != "" {
		t.Error(why)
	}
}

// Without a listener we dial, whether the other side dials too, in vain, or only
// waits.
func TestActiveOnly(t *testing.T) {
	l := newLAN(t)
	a, b, c, d, e := l.host(3), l.host(1), l.host(2), l.host(4), l.host(5)
	b.bird(asn, birdPeer{to: a, asn: asn})
	c.bird(asn, birdPeer{to: a, asn: asn, options: "passive on;"})
	d.frr(64513, frrPeer{to: a, asn: asn})
	e.frr(64513, frrPeer{to: a, asn: asn, options: []string{"passive"}})
	s := a.speaker()
	want := a.speak(b, c, d, e)
	want.Listen = nil
	for i := range want.Neighbors {
		want.Neighbors[i].Passive = false
	}
	for _, x := range []*host{d, e} {
		router(want, x, 64513, func(*routing.Neighbor) {})
	}
	set(t, s, want)
	t.Logf("sessions up after %s", eventually(t, 15*time.Second, up(s, 8)))
	if p, err := b.dialRaw(a.v4); err == nil {
		_ = p.Close()
		t.Error("somebody listens")
	}
	if why := says(s)(); why != "" {
		t.Error(why)
	}
	time.Sleep(3 * time.Second) // dialling in vain does no harm
	if why := up(s, 8)(); why != "" {
		t.Error(why)
	}
}
