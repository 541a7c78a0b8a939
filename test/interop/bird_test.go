package interop

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/need"
)

// bird is a BIRD 2 in a host's namespace.
type bird struct {
	h   *host
	ctl string
	pid int
}

// birdPeer is a session of BIRD's with a host.
type birdPeer struct {
	to       *host
	asn      uint32
	password string
	options  string // more lines for the protocol
	export   string // what it is told; empty: BIRD's own routes
}

// bird starts BIRD with a session per family to each peer. It announces the
// host's pod CIDRs and has no protocol for the kernel.
func (h *host) bird(asn uint32, peers ...birdPeer) *bird {
	h.t.Helper()
	return h.birdWith("", asn, peers...)
}

// birdWith does so with more in its configuration.
func (h *host) birdWith(more string, asn uint32, peers ...birdPeer) *bird {
	h.t.Helper()
	program := need.Program(h.t, "bird")
	need.Program(h.t, "birdc")
	dir := h.t.TempDir()
	var c strings.Builder
	fmt.Fprintf(&c, "log stderr all;\nrouter id %s;\nprotocol device {}\n%s\n", h.v4, more)
	if os.Getenv("DEBUG") != "" {
		c.WriteString("debug protocols all;\n")
	}
	for _, f := range routing.Families {
		fmt.Fprintf(&c, "protocol static own%d { %s; route %s blackhole; }\n", f, f, h.cidr(f))
		for _, p := range peers {
			fmt.Fprintf(&c, "protocol bgp %s_%d {\n local %s as %d;\n neighbor %s as %d;\n", p.to.name(), f, h.addr(f), asn, p.to.addr(f), p.asn)
			c.WriteString(" hold time 9; keepalive time 3; connect retry time 2; connect delay time 1; error wait time 1, 2; graceful restart on;\n")
			if p.password != "" {
				fmt.Fprintf(&c, " password %q;\n", p.password)
			}
			fmt.Fprintf(&c, " %s\n %s { import all; export %s; next hop self; };\n}\n", p.options, f, cmp.Or(p.export, "where source = RTS_STATIC"))
		}
	}
	conf := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(conf, []byte(c.String()), 0o600); err != nil {
		h.t.Fatal(err)
	}
	b := &bird{h: h, ctl: filepath.Join(dir, "ctl")}
	b.pid = h.start(exec.Command(program, "-f", "-c", conf, "-s", b.ctl))
	eventually(h.t, 5*time.Second, func() string {
		if _, err := os.Stat(b.ctl); err != nil {
			return err.Error()
		}
		return ""
	})
	return b
}

// start starts a process in the namespace, and returns its ID; it is killed when
// the test ends.
func (h *host) start(cmd *exec.Cmd) int {
	h.t.Helper()
	if os.Getenv("DEBUG") != "" {
		cmd.Stdout, cmd.Stderr = logWriter{h}, logWriter{h}
	}
	if err := h.Start(cmd); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func (b *bird) c(args ...string) string {
	out, err := exec.Command("birdc", append([]string{"-s", b.ctl}, args...)...).CombinedOutput()
	if err != nil {
		return "birdc: " + err.Error() + "\n" + string(out)
	}
	return string(out)
}

// routes returns BIRD's routes for a prefix with all their attributes.
func (b *bird) routes(prefix fmt.Stringer) string {
	return b.c("show", "route", prefix.String(), "all")
}

// has says what is missing until BIRD has the prefix from the peer.
func (b *bird) has(prefix, hop fmt.Stringer) func() string {
	return func() string {
		out := b.routes(prefix)
		if !strings.Contains(out, "BGP.next_hop: "+hop.String()) {
			return "bird has no " + prefix.String() + ":\n" + out
		}
		return ""
	}
}

// since returns when BIRD got its route for the prefix, as a time of day.
func (b *bird) since(prefix fmt.Stringer) time.Time {
	m := regexp.MustCompile(`\[\w+ (\d\d:\d\d:\d\d\.\d\d\d)`).FindStringSubmatch(b.routes(prefix))
	if m == nil {
		b.h.t.Fatalf("no time in %s", b.routes(prefix))
	}
	at, err := time.Parse("15:04:05.000", m[1])
	if err != nil {
		b.h.t.Fatal(err)
	}
	return at
}

func key(h *host, f routing.Family) routing.SessionKey {
	return routing.SessionKey{Peer: h.name(), Family: f}
}

// Both sides see each other's routes, and BIRD, which always dials, settles
// with us whoever of us is to dial.
func TestBIRD(t *testing.T) {
	for _, passive := range []bool{true, false} {
		t.Run(fmt.Sprintf("passive=%v", passive), func(t *testing.T) {
			l := newLAN(t)
			a, b := l.host(1), l.host(2)
			peer := b.bird(asn, birdPeer{to: a, asn: asn})
			s := a.speaker()
			want := a.speak(b)
			for i := range want.Neighbors {
				want.Neighbors[i].Passive = passive
			}
			set(t, s, want)
			t.Logf("established after %s", eventually(t, 10*time.Second, up(s, 2)))
			for _, f := range routing.Families {
				eventually(t, 3*time.Second, hasPaths(s, key(b, f), routing.Path{Prefix: b.cidr(f), NextHop: b.addr(f)}))
				eventually(t, 3*time.Second, peer.has(a.cidr(f), a.addr(f)))
			}
			time.Sleep(2 * time.Second)
			for _, x := range s.Sessions() {
				if x.State != routing.Established || x.Cause != routing.CauseNone {
					t.Error(describe(x))
				}
			}
		})
	}
}

// A restart of the speaker leaves BIRD's routes as they were, also where the
// session goes without CEASE because the process died; an end with CEASE takes
// them away at once.
func TestBIRDRestart(t *testing.T) {
	l := newLAN(t)
	a, b, c := l.host(1), l.host(2), l.host(3)
	peers := []*bird{b.bird(asn, birdPeer{to: a, asn: asn}), c.bird(asn, birdPeer{to: a, asn: asn})}
	s := a.speaker()
	want := a.speak(b, c)
	set(t, s, want)
	eventually(t, 10*time.Second, up(s, 4))
	since := func() (all []time.Time) {
		for _, p := range peers {
			for _, f := range routing.Families {
				eventually(t, 3*time.Second, p.has(a.cidr(f), a.addr(f)))
				all = append(all, p.since(a.cidr(f)))
			}
		}
		return all
	}
	before := since()
	unchanged := func(what string) {
		t.Helper()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			for i, at := range since() {
				// What it shows of one time differs by a millisecond now and then.
				if d := at.Sub(before[i]).Abs(); d > 50*time.Millisecond {
					t.Fatalf("%s: BIRD's route %d was of %v, is of %v", what, i, before[i], at)
				}
			}
		}
	}
	time.Sleep(200 * time.Millisecond)

	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	s = a.speaker()
	want.Restarting = true
	set(t, s, want)
	t.Logf("restart: established after %s", eventually(t, 10*time.Second, up(s, 4)))
	unchanged("restart")

	pid := s.Status().PID
	_ = exec.Command("kill", "-9", fmt.Sprint(pid)).Run()
	t.Logf("kill -9: gone after %s", eventually(t, time.Second, func() string {
		if up(s, 4)() == "" {
			return "still up"
		}
		return ""
	}))
	t.Logf("kill -9: established after %s", eventually(t, 3*time.Second, up(s, 4)))
	unchanged("kill -9")

	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	for _, p := range peers {
		eventually(t, time.Second, func() string {
			if out := p.routes(a.cidr(routing.IPv4)); !strings.Contains(out, "not found") && !strings.Contains(out, "Network not in table") {
				return out
			}
			return ""
		})
	}
}

// Why a session ended is told, with what the RFCs call it.
func TestBIRDDown(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	peer := b.bird(asn, birdPeer{to: a, asn: asn})
	s := a.speaker()
	set(t, s, a.speak(b))
	k4, k6 := key(b, routing.IPv4), key(b, routing.IPv6)
	eventually(t, 10*time.Second, up(s, 2))

	peer.c("disable", "host1_4")
	eventually(t, time.Second, func() string {
		x := session(s, k4)
		if x.State == routing.Established || x.Cause != routing.CauseCease || !strings.HasPrefix(x.Detail, "Cease/Administrative Shutdown received") || len(x.Paths) > 0 {
			return describe(x)
		}
		return ""
	})
	peer.c("enable", "host1_4")
	t.Logf("back after %s", eventually(t, 6*time.Second, up(s, 2)))

	peer.c("restart", "host1_6")
	eventually(t, time.Second, func() string {
		x := session(s, k6)
		if x.Cause != routing.CauseCease {
			return describe(x)
		}
		return ""
	})
	t.Logf("restart: %s; back after %s", session(s, k6).Detail, eventually(t, 6*time.Second, up(s, 2)))

	// A cut link: the hold timer.
	l.must(l.sw.Down("port2"))
	took := eventually(t, 12*time.Second, func() string {
		for _, k := range []routing.SessionKey{k4, k6} {
			if x := session(s, k); x.Cause != routing.CauseHoldTimer || len(x.Paths) > 0 || x.State == routing.Established {
				return describe(x)
			}
		}
		return ""
	})
	t.Logf("hold timer after %s", took)
}

// A password that matches lets the session up; one that does not shows.
func TestBIRDPassword(t *testing.T) {
	l := newLAN(t)
	a, b, c := l.host(1), l.host(2), l.host(3)
	b.bird(asn, birdPeer{to: a, asn: asn, password: "right"})
	c.bird(asn, birdPeer{to: a, asn: asn, password: "wrong"})
	s := a.speaker()
	want := a.speak(b, c)
	for i := range want.Neighbors {
		want.Neighbors[i].Password = "right"
	}
	set(t, s, want)
	for _, f := range routing.Families {
		eventually(t, 10*time.Second, func() string {
			if x := session(s, key(b, f)); x.State != routing.Established {
				return describe(x)
			}
			return ""
		})
	}
	eventually(t, 6*time.Second, func() string {
		for _, f := range routing.Families {
			if x := session(s, key(c, f)); x.State == routing.Established || x.Detail == "" {
				return describe(x)
			}
		}
		return ""
	})
	t.Log(describe(session(s, key(c, routing.IPv4))))

	// Without the password neither: the former key must be off the listener
	// for a neighbour that then has none.
	for i := range want.Neighbors {
		want.Neighbors[i].Password = ""
	}
	set(t, s, want)
	eventually(t, 2*time.Second, func() string {
		for _, x := range s.Sessions() {
			if x.State == routing.Established {
				return describe(x)
			}
		}
		return ""
	})
}

// TTL security in both directions.
func TestBIRDTTLSecurity(t *testing.T) {
	for _, passive := range []bool{true, false} {
		t.Run(fmt.Sprintf("passive=%v", passive), func(t *testing.T) {
			l := newLAN(t)
			a, b, c := l.host(1), l.host(2), l.host(3)
			role := map[bool]string{true: "", false: "passive on;"}[passive]
			b.bird(64513, birdPeer{to: a, asn: asn, options: "ttl security on; direct; " + role})
			c.bird(64513, birdPeer{to: a, asn: asn, options: "direct; " + role}) // its TTL is 1
			s := a.speaker()
			want := a.speak(b, c)
			for i := range want.Neighbors {
				n := &want.Neighbors[i]
				n.GTSM, n.Passive, n.PeerASN = true, passive, 64513
			}
			set(t, s, want)
			for _, f := range routing.Families {
				eventually(t, 10*time.Second, func() string {
					if x := session(s, key(b, f)); x.State != routing.Established || len(x.Paths) != 1 {
						return describe(x)
					}
					return ""
				})
				if x := session(s, key(c, f)); x.State == routing.Established {
					t.Errorf("without TTL security: %s", describe(x))
				}
			}
		})
	}
}
