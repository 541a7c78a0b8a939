package interop

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/speaker"
)

// keepUp answers for an established raw peer until it is closed.
func (p *rawPeer) keepUp(interval time.Duration) {
	go func() {
		for tick := time.Tick(interval); ; <-tick {
			if _, err := p.Write(message(4)); err != nil {
				return
			}
		}
	}()
	go func() {
		buf := make([]byte, 4096)
		_ = p.SetReadDeadline(time.Time{})
		for {
			if _, err := p.Read(buf); err != nil {
				return
			}
		}
	}()
}

// flood announces n prefixes of 11.0.0.0/8 and up.
func (p *rawPeer) flood(n int) error {
	const perUpdate = 800
	for i := 0; i < n; i += perUpdate {
		var nlri []byte
		for j := i; j < min(i+perUpdate, n); j++ {
			nlri = binary.BigEndian.AppendUint32(append(nlri, 24), uint32(11<<24+j<<8))[:len(nlri)+4]
		}
		if _, err := p.Write(update(nlri, originIGP, emptyPath, hostileHop, localPref)); err != nil {
			return err
		}
	}
	return nil
}

// pss returns the process's proportional set size in KiB.
func pss(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kb); n == 1 {
			return kb
		}
	}
	t.Fatal("no Pss")
	return 0
}

// A peer beyond its limit: as many paths as the limit allows count, and the
// session goes at ten times that. Others are not disturbed.
func TestFlood(t *testing.T) {
	l := newLAN(t)
	a, b, evil := l.host(1), l.host(2), l.host(9)
	b.bird(asn, birdPeer{to: a, asn: asn})
	s := a.speaker()
	want := a.speak(b, evil)
	for i := range want.Neighbors {
		want.Neighbors[i].Passive = true
	}
	set(t, s, want)
	for _, f := range routing.Families {
		eventually(t, 10*time.Second, hasPaths(s, key(b, f), routing.Path{Prefix: b.cidr(f), NextHop: b.addr(f)}))
	}
	since := session(s, key(b, routing.IPv4)).Since
	p, err := evil.dialRaw(a.v4)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.establish(evil, routing.IPv4, 90); err != nil {
		t.Fatal(err)
	}
	p.keepUp(20 * time.Second)
	if err := p.flood(1500); err != nil {
		t.Fatal(err)
	}
	k := key(evil, routing.IPv4)
	took := eventually(t, 3*time.Second, func() string {
		x := session(s, k)
		if x.Received != 1500 || len(x.Paths) != 1000 || x.Detail != "1500 prefixes received, only 1000 taken" {
			x.Paths = nil
			return describe(x)
		}
		return ""
	})
	t.Logf("1,500 prefixes after %s", took)
	_ = p.flood(100_000)
	took = eventually(t, 15*time.Second, func() string {
		x := session(s, k)
		if x.State == routing.Established || x.Cause != routing.CauseCease || !strings.HasPrefix(x.Detail, "Cease/Maximum Number of Prefixes Reached sent") {
			x.Paths = nil
			return describe(x)
		}
		return ""
	})
	t.Logf("100,000 prefixes: %s after %s; speaker's PSS %d KiB", session(s, k).Detail, took, pss(t, s.Status().PID))
	if x := session(s, key(b, routing.IPv4)); x.Since != since || x.State != routing.Established {
		t.Errorf("another peer: %s", describe(x))
	}
	if st := s.Status(); st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
}

// A peer that wants no timers gets none.
func TestHoldTimeZero(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	s := a.speaker()
	want := a.speak(b)
	want.Neighbors[0].Passive = true
	set(t, s, want)
	var p *rawPeer
	eventually(t, 10*time.Second, func() string { // a speaker that has just begun may hang up
		var err error
		if p, err = b.dialRaw(a.v4); err == nil {
			t.Cleanup(func() { _ = p.Close() })
			err = p.establish(b, routing.IPv4, 0)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	begun := time.Now()
	got := false
	for time.Since(begun) < 4*time.Second {
		typ, _, err := p.read()
		if err != nil && !strings.Contains(err.Error(), "timeout") {
			t.Fatal(err)
		}
		got = got || typ == 2
	}
	if x := session(s, key(b, routing.IPv4)); x.State != routing.Established || !got {
		t.Errorf("update seen: %v; %s", got, describe(x))
	}
}

// A mesh of a hundred: how long, how much memory, and silence once it stands.
func TestHundredPeers(t *testing.T) {
	l := newLAN(t)
	a, gen := l.host(1), l.host(9)
	peers := 100
	if n, err := strconv.Atoi(os.Getenv("PEERS")); err == nil {
		peers = n // to measure more of them
	}
	for _, h := range []*host{a, gen} {
		h.MustIP(t, "route add 10.49.0.0/16 dev "+link)
	}
	want := a.speak()
	want.Listen = want.Listen[:1]
	var addrs []netip.Addr
	for i := range peers {
		at := netip.MustParseAddr(fmt.Sprintf("10.49.%d.%d", i/250, 1+i%250))
		l.must(gen.Addr(link, at.String()+"/32"))
		addrs = append(addrs, at)
		want.Neighbors = append(want.Neighbors, routing.Neighbor{
			Key: routing.SessionKey{Peer: fmt.Sprintf("peer%d", i), Family: routing.IPv4}, Link: link,
			Local: a.v4, Remote: at, PeerASN: asn, Passive: true, Timers: timers, RestartTime: 10 * time.Second, MaxPrefixes: 1000,
		})
	}
	var mu sync.Mutex
	told := 0
	s := a.speakerWith(func(c *speaker.Config) {
		c.Notify = func() { mu.Lock(); told++; mu.Unlock() }
	})
	set(t, s, want)
	begun := time.Now()
	for i, at := range addrs {
		go func() {
			var conn net.Conn
			err := gen.Do(func() (err error) {
				d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: at.AsSlice()}}
				conn, err = d.Dial("tcp", netip.AddrPortFrom(a.v4, 179).String())
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			p := &rawPeer{t, conn}
			h := &host{v4: at}
			if err := p.establish(h, routing.IPv4, 9); err != nil {
				t.Error(err)
				return
			}
			_, _ = p.Write(update([]byte{24, 11, byte(i >> 8), byte(i)}, originIGP, emptyPath, attr(0x40, 3, at.AsSlice()...), localPref))
			p.keepUp(3 * time.Second)
		}()
	}
	eventually(t, 10*time.Second, func() string {
		n := 0
		for _, x := range s.Sessions() {
			n += len(x.Paths)
		}
		if n != peers {
			return fmt.Sprintf("%d paths", n)
		}
		return ""
	})
	t.Logf("%d peers after %s", peers, time.Since(begun))
	time.Sleep(8 * time.Second) // memory is given back after 5 s of calm
	t.Logf("speaker's PSS with %d peers: %d KiB", peers, pss(t, s.Status().PID))
	mu.Lock()
	before := told
	mu.Unlock()
	time.Sleep(7 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	if told != before {
		t.Errorf("%d messages from an idle mesh", told-before)
	}
}
