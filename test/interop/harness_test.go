package interop

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/bgp"
	"netclass.dev/routing/speaker"
	"netclass.dev/test/need"
	"netclass.dev/test/netns"
)

// The test binary is its own speaker process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "speaker" {
		if err := bgp.Main(); err != nil {
			fmt.Fprintln(os.Stderr, "WARN", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// They wait for timers more than they work.
	_ = flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// asn is the mesh's AS number.
const asn = 64512

// lan is a bridge with nodes on it. Each test has its own, so they all run in
// parallel.
type lan struct {
	t  *testing.T
	sw *netns.NS
}

func newLAN(t *testing.T) *lan {
	t.Helper()
	need.Root(t)
	t.Parallel()
	l := &lan{t: t, sw: netns.New(t)}
	l.must(l.sw.Bridge("br0"))
	l.must(l.sw.Up("br0"))
	return l
}

func (l *lan) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// host is a namespace on the LAN; its number is the last byte of its addresses.
type host struct {
	*netns.NS
	t      *testing.T
	n      int
	v4, v6 netip.Addr
}

// link is the name of every host's link to the LAN.
const link = "pod0"

func (l *lan) host(n int) *host {
	l.t.Helper()
	h := &host{NS: netns.New(l.t), t: l.t, n: n}
	port := fmt.Sprintf("port%d", n)
	l.must(l.sw.Veth(port, h.NS, link))
	l.must(l.sw.Enslave(port, "br0"))
	h.v4 = netip.MustParseAddr(fmt.Sprintf("10.48.0.%d", n))
	h.v6 = netip.MustParseAddr(fmt.Sprintf("fd00:48::%d", n))
	l.must(l.sw.Up(port))
	l.must(h.Up(link))
	l.must(h.Addr(link, h.v4.String()+"/24", h.v6.String()+"/64"))
	return h
}

func (h *host) addr(f routing.Family) netip.Addr {
	if f == routing.IPv4 {
		return h.v4
	}
	return h.v6
}

func (h *host) name() string { return fmt.Sprintf("host%d", h.n) }

// cidr is the host's pod CIDR.
func (h *host) cidr(f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", h.n))
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%d::/64", h.n))
}

// speaker makes a speaker that runs in the host's namespace.
func (h *host) speaker() *speaker.Speaker { return h.speakerWith(func(*speaker.Config) {}) }

func (h *host) speakerWith(edit func(*speaker.Config)) *speaker.Speaker {
	h.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	ns := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), h.Fd())
	level := slog.LevelInfo
	if os.Getenv("DEBUG") != "" {
		level = slog.LevelDebug
	}
	cfg := speaker.Config{
		Command: func() *exec.Cmd { return exec.Command("nsenter", ns, exe, "speaker") },
		Log:     slog.New(slog.NewTextHandler(logWriter{h}, &slog.HandlerOptions{Level: level})),
	}
	edit(&cfg)
	s := speaker.New(cfg)
	h.t.Cleanup(func() { _ = s.Close(false) })
	return s
}

// logWriter writes a host's log where the test's is.
type logWriter struct{ h *host }

func (w logWriter) Write(b []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprintf(os.Stderr, "%s %s", w.h.name(), b)
	}
	return len(b), nil
}

// timers are quick enough for a test.
var timers = routing.Timers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: 2 * time.Second}

// speak is what h is to do: a session per family with each of the others, and
// its own pod CIDRs announced to the mesh.
func (h *host) speak(others ...*host) *routing.Speak {
	s := &routing.Speak{ASN: asn, RouterID: h.v4, Port: 179}
	for _, f := range routing.Families {
		s.Listen = append(s.Listen, routing.Listen{Addr: h.addr(f), Link: link})
		s.Announce = append(s.Announce, routing.Announcement{Prefix: h.cidr(f), NextHop: h.addr(f)})
		for _, o := range others {
			s.Neighbors = append(s.Neighbors, h.neighbor(o, f))
		}
	}
	return s
}

func (h *host) neighbor(o *host, f routing.Family) routing.Neighbor {
	return routing.Neighbor{
		Key:         routing.SessionKey{Peer: o.name(), Family: f},
		Link:        link,
		Local:       h.addr(f),
		Remote:      o.addr(f),
		PeerASN:     asn,
		Passive:     o.n < h.n,
		Timers:      timers,
		RestartTime: 10 * time.Second,
		MaxPrefixes: 1000,
	}
}

func set(t *testing.T, s *speaker.Speaker, want *routing.Speak) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Set(ctx, want); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check returns the empty string.
func eventually(t *testing.T, within time.Duration, check func() string) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		why := check()
		took := time.Since(begun)
		if why == "" {
			return took
		}
		if took > within {
			t.Fatalf("after %s: %s", within, why)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func session(s *speaker.Speaker, key routing.SessionKey) routing.Session {
	for _, x := range s.Sessions() {
		if x.Key == key {
			return x
		}
	}
	return routing.Session{}
}

// up says what is missing until every session is established, complete and has
// the paths of its peer: paths names the prefixes by session.
func up(s *speaker.Speaker, sessions int) func() string {
	return func() string {
		list := s.Sessions()
		if len(list) != sessions {
			return fmt.Sprintf("%d sessions", len(list))
		}
		var bad []string
		for _, x := range list {
			if x.State != routing.Established || !x.EndOfRIB {
				bad = append(bad, describe(x))
			}
		}
		return strings.Join(bad, "\n")
	}
}

func describe(x routing.Session) string {
	return fmt.Sprintf("%s: %s eor=%v cause=%q detail=%q received=%d paths=%v", x.Key, x.State, x.EndOfRIB, x.Cause, x.Detail, x.Received, x.Paths)
}

// hasPaths says what differs from the session having exactly these paths.
func hasPaths(s *speaker.Speaker, key routing.SessionKey, want ...routing.Path) func() string {
	return func() string {
		x := session(s, key)
		slices.SortFunc(want, func(a, b routing.Path) int { return a.Prefix.Compare(b.Prefix) })
		if !slices.Equal(x.Paths, want) {
			return fmt.Sprintf("%s\nwant paths %v", describe(x), want)
		}
		return ""
	}
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
