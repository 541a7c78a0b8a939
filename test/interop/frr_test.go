package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/need"
)

// spaces counts path spaces.
var spaces atomic.Int32

// frr is an FRR (zebra and bgpd) in a host's namespace.
type frr struct {
	h    *host
	name string // of its path space
	pid  int    // of bgpd
}

// frrPeer is a neighbour of FRR's.
type frrPeer struct {
	to      *host
	asn     uint32
	options []string // more lines, after "neighbor ADDRESS"
}

// frr starts FRR with a session per family to each peer. It announces the
// host's pod CIDRs.
func (h *host) frr(as uint32, peers ...frrPeer) *frr {
	h.t.Helper()
	zebra, bgpd := need.Program(h.t, "zebra"), need.Program(h.t, "bgpd")
	need.Program(h.t, "vtysh")
	u, err := user.Lookup("frr")
	if err != nil {
		h.t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	f := &frr{h: h, name: fmt.Sprintf("netclass-%d-%d", os.Getpid(), spaces.Add(1))}
	dir := filepath.Join("/var/run/frr", f.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = os.RemoveAll(dir) })

	var c strings.Builder
	fmt.Fprintf(&c, "log stdout\nrouter bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n no bgp network import-check\n bgp graceful-restart\n", as, h.v4)
	for _, fam := range routing.Families {
		for _, p := range peers {
			n := "neighbor " + p.to.addr(fam).String()
			fmt.Fprintf(&c, " %s remote-as %d\n %s timers 3 9\n %s timers connect 2\n", n, p.asn, n, n)
			for _, o := range p.options {
				fmt.Fprintf(&c, " %s %s\n", n, o)
			}
		}
	}
	for _, fam := range routing.Families {
		fmt.Fprintf(&c, " address-family %s unicast\n  network %s\n", fam, h.cidr(fam))
		for _, p := range peers {
			fmt.Fprintf(&c, "  neighbor %s activate\n", p.to.addr(fam))
		}
		c.WriteString(" exit-address-family\n")
	}
	conf := filepath.Join(dir, "bgpd.conf")
	if err := os.WriteFile(conf, []byte(c.String()), 0o644); err != nil {
		h.t.Fatal(err)
	}
	for _, p := range []string{dir, conf} {
		if err := os.Chown(p, uid, gid); err != nil {
			h.t.Fatal(err)
		}
	}
	h.start(exec.Command(zebra, "-N", f.name, "-f", "/dev/null"))
	// bgpd looks for zebra once, and then not for seconds.
	eventually(h.t, 10*time.Second, func() string {
		if _, err := os.Stat(filepath.Join(dir, "zserv.api")); err != nil {
			return err.Error()
		}
		return ""
	})
	f.pid = h.start(exec.Command(bgpd, "-N", f.name, "-f", conf, "-p", "179"))
	eventually(h.t, 10*time.Second, func() string {
		if out := f.vtysh("show bgp summary json"); !strings.HasPrefix(strings.TrimSpace(out), "{") {
			return out
		}
		return ""
	})
	return f
}

func (f *frr) vtysh(command string) string {
	// What it says of its missing configuration goes to stderr.
	out, err := exec.Command("vtysh", "-N", f.name, "-d", "bgpd", "-c", command).Output()
	if err != nil {
		return "vtysh: " + err.Error() + "\n" + string(out)
	}
	return string(out)
}

// frrPath is what of FRR's JSON is looked at.
type frrPath struct {
	Valid     bool
	Metric    int
	Locpref   int `json:"locPrf"`
	Aspath    struct{ String string }
	Community struct{ String string }
	Large     struct{ String string } `json:"largeCommunity"`
	Nexthops  []struct {
		IP    string
		Scope string
	}
}

// path returns FRR's path for a prefix, or why there is none.
func (f *frr) path(fam routing.Family, prefix fmt.Stringer) (*frrPath, string) {
	out := f.vtysh(fmt.Sprintf("show bgp %s unicast %s json", fam, prefix))
	var table struct{ Paths []frrPath }
	if err := json.Unmarshal([]byte(out), &table); err != nil || len(table.Paths) != 1 {
		return nil, fmt.Sprintf("no path for %s: %v: %s", prefix, err, out)
	}
	return &table.Paths[0], ""
}

// has says what is missing until FRR has the prefix with the next hop.
func (f *frr) has(fam routing.Family, prefix, hop fmt.Stringer) func() string {
	return func() string {
		p, why := f.path(fam, prefix)
		if p == nil {
			return why
		}
		if len(p.Nexthops) == 0 || p.Nexthops[0].IP != hop.String() || !p.Valid {
			return fmt.Sprintf("%s: %+v", prefix, p)
		}
		return ""
	}
}

// A mixed mesh: routes of all at us, ours at all, and nothing of one peer's
// told to another, whether in our AS or not.
func TestMixedMesh(t *testing.T) {
	l := newLAN(t)
	a, b, c, d, e := l.host(1), l.host(2), l.host(3), l.host(4), l.host(5)
	birdPeer1 := b.bird(asn, birdPeer{to: a, asn: asn})
	frrPeer1 := c.frr(asn, frrPeer{to: a, asn: asn})
	upstreamFRR := d.frr(64513, frrPeer{to: a, asn: asn})
	upstreamBIRD := e.bird(64514, birdPeer{to: a, asn: asn})
	s := a.speaker()
	want := a.speak(b, c, d, e)
	for i := range want.Neighbors {
		n := &want.Neighbors[i]
		switch n.Key.Peer {
		case "host4":
			n.Upstream, n.PeerASN, n.RestartTime = true, 64513, 0
		case "host5":
			n.Upstream, n.PeerASN, n.RestartTime, n.MaxPrefixes = true, 64514, 0, 0
		}
	}
	vip := map[routing.Family]string{routing.IPv4: "10.47.64.0/24", routing.IPv6: "fd00:47:64::/112"}
	for _, f := range routing.Families {
		p := prefix(vip[f])
		want.Announce = append(want.Announce,
			routing.Announcement{Prefix: p, NextHop: a.addr(f), To: "host4", Communities: []string{"64512:7", "no-export", "64512:1:2"}, MED: 50, Prepend: 2},
			routing.Announcement{Prefix: p, NextHop: a.addr(f), To: "host5"})
	}
	set(t, s, want)
	t.Logf("established after %s", eventually(t, 15*time.Second, up(s, 8)))
	for _, f := range routing.Families {
		for _, x := range []*host{b, c, d} {
			eventually(t, 5*time.Second, hasPaths(s, key(x, f), routing.Path{Prefix: x.cidr(f), NextHop: x.addr(f)}))
		}
		eventually(t, 5*time.Second, func() string {
			if x := session(s, key(e, f)); x.Received != 1 || len(x.Paths) != 0 || x.Detail != "1 prefixes received, none wanted" {
				return describe(x)
			}
			return ""
		})
		eventually(t, 5*time.Second, birdPeer1.has(a.cidr(f), a.addr(f)))
		eventually(t, 5*time.Second, frrPeer1.has(f, a.cidr(f), a.addr(f)))
		eventually(t, 5*time.Second, upstreamFRR.has(f, prefix(vip[f]), a.addr(f)))
		eventually(t, 5*time.Second, upstreamBIRD.has(prefix(vip[f]), a.addr(f)))
		p, _ := upstreamFRR.path(f, prefix(vip[f]))
		if p.Metric != 50 || p.Aspath.String != "64512 64512 64512" || p.Community.String != "64512:7 no-export" || p.Large.String != "64512:1:2" {
			t.Errorf("attributes at FRR: %+v", p)
		}
		if p, _ := frrPeer1.path(f, a.cidr(f)); p.Locpref != 100 || p.Aspath.String != "Local" && p.Aspath.String != "" {
			t.Errorf("attributes in the mesh: %+v", p)
		}
	}
	time.Sleep(time.Second)
	// Everyone knows of its own prefix and of what is addressed to it.
	for name, got := range map[string]string{
		"mesh BIRD": birdPeer1.c("show", "route"), "mesh FRR": frrPeer1.both(), "upstream FRR": upstreamFRR.both(), "upstream BIRD": upstreamBIRD.c("show", "route"),
	} {
		for _, x := range []*host{a, b, c, d, e} {
			for _, f := range routing.Families {
				own := strings.HasSuffix(name, "BIRD") && strings.HasPrefix(name, "mesh") && x == b || name == "mesh FRR" && x == c ||
					name == "upstream FRR" && x == d || name == "upstream BIRD" && x == e
				wanted := own || x == a && strings.HasPrefix(name, "mesh")
				if strings.Contains(got, x.cidr(f).String()) != wanted {
					t.Errorf("%s knows %s: %v, want %v:\n%s", name, x.cidr(f), !wanted, wanted, got)
				}
			}
		}
		for _, v := range vip {
			if strings.Contains(got, v) != strings.HasPrefix(name, "upstream") {
				t.Errorf("%s and %s:\n%s", name, v, got)
			}
		}
	}
}

func (f *frr) both() string {
	return f.vtysh("show bgp ipv4 unicast") + f.vtysh("show bgp ipv6 unicast")
}

// What is announced follows what is wanted: attributes, targets, withdrawals.
func TestAnnounceChanges(t *testing.T) {
	l := newLAN(t)
	a, b, c := l.host(1), l.host(2), l.host(3)
	one := b.frr(asn, frrPeer{to: a, asn: asn})
	two := c.frr(64513, frrPeer{to: a, asn: asn})
	s := a.speaker()
	p := prefix("10.99.0.0/24")
	speak := func(list ...routing.Announcement) *routing.Speak {
		want := a.speak(b, c)
		for i := range want.Neighbors {
			if n := &want.Neighbors[i]; n.Key.Peer == "host3" {
				n.Upstream, n.PeerASN = true, 64513
			}
		}
		want.Announce = list
		return want
	}
	set(t, s, speak(routing.Announcement{Prefix: p, NextHop: a.v4, MED: 5}))
	eventually(t, 15*time.Second, up(s, 4))
	at := func(f *frr, ok func(*frrPath) bool) {
		t.Helper()
		eventually(t, 3*time.Second, func() string {
			x, why := f.path(routing.IPv4, p)
			if !ok(x) {
				return fmt.Sprintf("%+v %s", x, why)
			}
			return ""
		})
	}
	none := func(x *frrPath) bool { return x == nil }
	at(one, func(x *frrPath) bool { return x != nil && x.Metric == 5 })
	at(two, none)

	// Another attribute, another target with a next hop of its own.
	other := a.v4.Next().Next().Next().Next()
	set(t, s, speak(routing.Announcement{Prefix: p, NextHop: a.v4, MED: 6, LocalPreference: 300},
		routing.Announcement{Prefix: p, NextHop: other, To: "host3", Communities: []string{"1:2"}}))
	at(one, func(x *frrPath) bool {
		return x != nil && x.Metric == 6 && x.Locpref == 300 && x.Nexthops[0].IP == a.v4.String()
	})
	at(two, func(x *frrPath) bool {
		return x != nil && x.Community.String == "1:2" && x.Nexthops[0].IP == other.String()
	})

	// One target loses it.
	set(t, s, speak(routing.Announcement{Prefix: p, NextHop: other, To: "host3", Communities: []string{"1:2"}}))
	at(one, none)
	at(two, func(x *frrPath) bool { return x != nil })

	// A community that is none is left out and said.
	err := s.Set(t.Context(), speak(routing.Announcement{Prefix: p, NextHop: a.v4, To: "host3", Communities: []string{"1:2", "often"}}))
	if err == nil || !strings.Contains(err.Error(), `community "often"`) {
		t.Errorf("Set returned %v", err)
	}
	at(two, func(x *frrPath) bool {
		return x != nil && x.Community.String == "1:2" && x.Nexthops[0].IP == a.v4.String()
	})

	set(t, s, speak())
	at(two, none)
	if x := up(s, 4)(); x != "" {
		t.Error(x)
	}
}

// FRR: password and TTL security.
func TestFRRPasswordAndTTL(t *testing.T) {
	l := newLAN(t)
	a, b, c := l.host(1), l.host(2), l.host(3)
	one := b.frr(64513, frrPeer{to: a, asn: asn, options: []string{"password right", "ttl-security hops 1"}})
	c.frr(64513, frrPeer{to: a, asn: asn, options: []string{"password right"}}) // its TTL is 1
	s := a.speaker()
	want := a.speak(b, c)
	for i := range want.Neighbors {
		n := &want.Neighbors[i]
		n.PeerASN, n.GTSM, n.Password = 64513, true, "right"
	}
	set(t, s, want)
	for _, f := range routing.Families {
		eventually(t, 15*time.Second, hasPaths(s, key(b, f), routing.Path{Prefix: b.cidr(f), NextHop: b.addr(f)}))
		eventually(t, 5*time.Second, one.has(f, a.cidr(f), a.addr(f)))
		if x := session(s, key(c, f)); x.State == routing.Established {
			t.Errorf("without TTL security: %s", describe(x))
		}
	}
}
