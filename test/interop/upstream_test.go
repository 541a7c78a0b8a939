package interop

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/speaker"
	"netclass.dev/test/netns"
)

// vip is what is announced to routers.
func vip(f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return prefix("10.47.64.0/24")
	}
	return prefix("fd00:47:64::/112")
}

// router makes the sessions with a host those of a router.
func router(want *routing.Speak, o *host, as uint32, edit func(*routing.Neighbor)) {
	for i := range want.Neighbors {
		if n := &want.Neighbors[i]; n.Key.Peer == o.name() {
			n.Upstream, n.PeerASN, n.RestartTime, n.MaxPrefixes, n.Passive = true, as, 0, 0, false
			edit(n)
		}
	}
}

// advertise announces the VIPs to a router.
func advertise(want *routing.Speak, a, to *host, edit func(*routing.Announcement)) {
	for _, f := range routing.Families {
		x := routing.Announcement{Prefix: vip(f), NextHop: a.addr(f), To: to.name()}
		edit(&x)
		want.Announce = append(want.Announce, x)
	}
}

func established(s *speaker.Speaker, keys ...routing.SessionKey) func() string {
	return func() string {
		for _, k := range keys {
			if x := session(s, k); x.State != routing.Established {
				return describe(x)
			}
		}
		return ""
	}
}

// frrSession is what of FRR's view of a session is looked at.
type frrSession struct {
	Hold         int            `json:"bgpTimerHoldTimeMsecs"`
	Keepalive    int            `json:"bgpTimerKeepAliveIntervalMsecs"`
	Capabilities map[string]any `json:"neighborCapabilities"`
}

func (f *frr) session(t *testing.T, with netip.Addr) frrSession {
	t.Helper()
	out := f.vtysh(fmt.Sprintf("show bgp neighbors %s json", with))
	var all map[string]frrSession
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err, out)
	}
	return all[with.String()]
}

// frrOffers checks the OPEN that FRR got: one family, no graceful restart.
func (f *frr) offers(t *testing.T, a *host, fam routing.Family) {
	t.Helper()
	x := f.session(t, a.addr(fam))
	families, _ := x.Capabilities["multiprotocolExtensions"].(map[string]any)
	var got []string
	for name, v := range families {
		if how, _ := v.(map[string]any); how["received"] == true || how["advertisedAndReceived"] == true {
			got = append(got, name)
		}
	}
	if want := []string{fam.String() + "Unicast"}; !slices.Equal(got, want) {
		t.Errorf("%s: families %v, want %v", fam, got, want)
	}
	if gr := x.Capabilities["gracefulRestartCapability"]; gr != "advertised" {
		t.Errorf("%s: graceful restart %v", fam, gr)
	}
	if x.Hold != 30_000 || x.Keepalive != 10_000 {
		t.Errorf("%s: hold %d ms, keepalive %d ms", fam, x.Hold, x.Keepalive)
	}
}

// birdOffers checks the OPEN that BIRD got in the same way.
func (b *bird) offers(t *testing.T, a *host, fam routing.Family) {
	t.Helper()
	out := b.c("show", "protocols", "all", fmt.Sprintf("%s_%d", a.name(), fam))
	_, theirs, _ := strings.Cut(out, "Neighbor capabilities")
	theirs, _, _ = strings.Cut(theirs, "Session:")
	if m := regexp.MustCompile(`AF announced: (.*)`).FindStringSubmatch(theirs); m == nil || m[1] != fam.String() {
		t.Errorf("%s: families %v", fam, m)
	}
	if strings.Contains(theirs, "Graceful restart") {
		t.Errorf("%s: graceful restart offered:\n%s", fam, out)
	}
	if !regexp.MustCompile(`Hold timer: +[0-9.]+/30\n`).MatchString(out) || !regexp.MustCompile(`Keepalive timer: +[0-9.]+/10\n`).MatchString(out) {
		t.Errorf("%s: timers:\n%s", fam, out)
	}
}

// Everything that can be configured of a session with a router, at FRR and at
// BIRD, in another AS and in ours. A session carries its own family only, and
// says nothing of graceful restart.
func TestUpstreamAttributes(t *testing.T) {
	l := newLAN(t)
	a, e1, e2, i1, i2 := l.host(1), l.host(2), l.host(3), l.host(4), l.host(5)
	slow := []string{"timers 20 60"}
	secure := append([]string{"password geheim", "ttl-security hops 1"}, slow...)
	eFRR := e1.frr(64513, frrPeer{to: a, asn: asn, options: secure})
	iFRR := i1.frr(asn, frrPeer{to: a, asn: asn, options: slow})
	eBIRD := e2.bird(64513, birdPeer{to: a, asn: asn, password: "geheim", options: "ttl security on; direct; hold time 60; keepalive time 20;"})
	iBIRD := i2.bird(asn, birdPeer{to: a, asn: asn, options: "hold time 60; keepalive time 20;"})

	s := a.speaker()
	want := a.speak(e1, e2, i1, i2)
	long := routing.Timers{Hold: 30 * time.Second, Keepalive: 10 * time.Second, ConnectRetry: 2 * time.Second}
	for _, x := range []*host{e1, e2} {
		router(want, x, 64513, func(n *routing.Neighbor) { n.Password, n.GTSM, n.Timers = "geheim", true, long })
		advertise(want, a, x, func(p *routing.Announcement) {
			p.MED, p.Prepend, p.Communities = 50, 2, []string{"64512:7", "no-export", "64512:1:2"}
		})
	}
	for _, x := range []*host{i1, i2} {
		router(want, x, asn, func(n *routing.Neighbor) { n.Timers = long })
		advertise(want, a, x, func(p *routing.Announcement) { p.LocalPreference, p.MED = 250, 9 })
	}
	set(t, s, want)
	for _, x := range []*host{e1, e2, i1, i2} {
		for _, f := range routing.Families {
			eventually(t, 15*time.Second, established(s, key(x, f)))
		}
	}
	for _, f := range routing.Families {
		for _, x := range []*frr{eFRR, iFRR} {
			eventually(t, 5*time.Second, x.has(f, vip(f), a.addr(f)))
			x.offers(t, a, f)
		}
		for _, x := range []*bird{eBIRD, iBIRD} {
			eventually(t, 5*time.Second, x.has(vip(f), a.addr(f)))
			x.offers(t, a, f)
		}
		if p, _ := eFRR.path(f, vip(f)); p.Metric != 50 || p.Aspath.String != "64512 64512 64512" || p.Community.String != "64512:7 no-export" || p.Large.String != "64512:1:2" {
			t.Errorf("eBGP at FRR: %+v", p)
		}
		if p, _ := iFRR.path(f, vip(f)); p.Metric != 9 || p.Locpref != 250 || p.Aspath.String != "Local" {
			t.Errorf("iBGP at FRR: %+v", p)
		}
		wants := func(b *bird, lines ...string) {
			t.Helper()
			out := b.routes(vip(f))
			for _, line := range lines {
				if !strings.Contains(out, line+"\n") {
					t.Errorf("BIRD has no %q in\n%s", line, out)
				}
			}
		}
		wants(eBIRD, "BGP.as_path: 64512 64512 64512", "BGP.med: 50", "BGP.community: (64512,7) (65535,65281)", "BGP.large_community: (64512, 1, 2)")
		wants(iBIRD, "BGP.as_path: ", "BGP.med: 9", "BGP.local_pref: 250")
	}
}

// A router behind another: the session's packets live for as many hops as
// configured, and no more.
func TestUpstreamMultihop(t *testing.T) {
	for _, program := range []string{"BIRD", "FRR"} {
		t.Run(program, func(t *testing.T) {
			l := newLAN(t)
			a, mid := l.host(1), l.host(9)
			// The far router is on a link of its own to the one between.
			far := &host{NS: netns.New(t), t: t, n: 2, v4: netip.MustParseAddr("10.49.0.2"), v6: netip.MustParseAddr("fd00:49::2")}
			l.must(mid.Veth("side0", far.NS, link))
			l.must(mid.Up("side0"))
			l.must(far.Up(link))
			l.must(far.Up("lo"))
			l.must(mid.Addr("side0", "10.49.0.9/24", "fd00:49::9/64"))
			l.must(far.Addr(link, "10.49.0.2/24", "fd00:49::2/64"))
			l.must(mid.Sysctl("ipv4/ip_forward", "1"))
			l.must(mid.Sysctl("ipv6/conf/all/forwarding", "1"))
			a.MustIP(t, "route add 10.49.0.0/24 via 10.48.0.9")
			a.MustIP(t, "route add fd00:49::/64 via fd00:48::9")
			far.MustIP(t, "route add 10.48.0.0/24 via 10.49.0.9")
			far.MustIP(t, "route add fd00:48::/64 via fd00:49::9")
			var has func(f routing.Family) func() string
			if program == "BIRD" {
				b := far.bird(64513, birdPeer{to: a, asn: asn, options: "multihop 3;"})
				has = func(f routing.Family) func() string { return b.has(vip(f), a.addr(f)) }
			} else {
				r := far.frr(64513, frrPeer{to: a, asn: asn, options: []string{"ebgp-multihop 3"}})
				has = func(f routing.Family) func() string { return r.has(f, vip(f), a.addr(f)) }
			}
			s := a.speaker()
			speak := func(ttl uint8) *routing.Speak {
				want := a.speak(far)
				router(want, far, 64513, func(n *routing.Neighbor) { n.Multihop = ttl })
				advertise(want, a, far, func(*routing.Announcement) {})
				return want
			}
			set(t, s, speak(1))
			time.Sleep(4 * time.Second)
			for _, f := range routing.Families {
				if x := session(s, key(far, f)); x.State == routing.Established {
					t.Errorf("a TTL of 1 passes a router: %s", describe(x))
				}
			}
			set(t, s, speak(3))
			for _, f := range routing.Families {
				t.Logf("%s up after %s", f, eventually(t, 15*time.Second, established(s, key(far, f))))
				eventually(t, 5*time.Second, has(f))
			}
		})
	}
}
