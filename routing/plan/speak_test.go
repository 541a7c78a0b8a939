package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

func planOps(p *routing.Plan, w *world) []routing.Op { return plan.Diff(p, w.Kernel) }

// announced is what is originated, to whom and behind what.
func announced(p *routing.Plan) string {
	var b strings.Builder
	for _, o := range p.Announce {
		to := o.To
		if to == "" {
			to = "mesh"
		}
		fmt.Fprintf(&b, "%s to %s via %s", o.Prefix, to, o.NextHop)
		if o.Needs.Dst.IsValid() {
			fmt.Fprintf(&b, " once [%s]", o.Needs)
		}
		if o.NeedsRule.Family != 0 {
			fmt.Fprintf(&b, " once [%s]", o.NeedsRule)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// spoken is what the speaker is told, as text.
func spoken(p *routing.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "AS%d id %s port %d\n", p.Speak.ASN, p.Speak.RouterID, p.Speak.Port)
	for _, l := range p.Speak.Listen {
		fmt.Fprintf(&b, "listen %s %s\n", l.Addr, l.Link)
	}
	for _, n := range p.Speak.Neighbors {
		side := "dials"
		if n.Passive {
			side = "waits"
		}
		fmt.Fprintf(&b, "%s %s %s -> %s AS%d %s restart %s max %d\n", n.Key, n.Link, n.Local, n.Remote, n.PeerASN, side, n.RestartTime, n.MaxPrefixes)
	}
	return b.String()
}

func TestSeedSpeaks(t *testing.T) {
	w := seed()
	w.Node = "k8s-2"
	for i := range w.Kernel.Links {
		for j := range w.Kernel.Links[i].Addrs {
			a := &w.Kernel.Links[i].Addrs[j].Prefix
			if b := a.Addr().AsSlice(); b[len(b)-1] == 1 && !a.Addr().IsLoopback() {
				b[len(b)-1] = 2
				next, _ := netip.AddrFromSlice(b)
				*a = netip.PrefixFrom(next, a.Bits())
			}
		}
	}
	w.converge()
	p := w.make()
	wantText(t, "the speaker's order", spoken(p), `
		AS64512 id 10.48.0.2 port 179
		listen 10.47.0.2 ingress0
		listen 10.48.0.2 pod0
		listen fd00:47::2 ingress0
		listen fd00:48::2 pod0
		k8s-1/ipv4 pod0 10.48.0.2 -> 10.48.0.1 AS64512 waits restart 10s max 1000
		k8s-1/ipv6 pod0 fd00:48::2 -> fd00:48::1 AS64512 waits restart 10s max 1000
		k8s-3/ipv4 pod0 10.48.0.2 -> 10.48.0.3 AS64512 dials restart 10s max 1000
		k8s-3/ipv6 pod0 fd00:48::2 -> fd00:48::3 AS64512 dials restart 10s max 1000
		udm/ipv4 ingress0 10.47.0.2 -> 10.47.0.254 AS64513 dials restart 0s max 0
		udm/ipv6 ingress0 fd00:47::2 -> fd00:47::fe AS64513 dials restart 0s max 0`)
	wantText(t, "announcements", announced(p), `
		10.244.2.0/24 to mesh via 10.48.0.2 once [10.244.2.0/24 dev cilium_host table 47 metric 10]
		fd00:10:244:2::/64 to mesh via fd00:48::2 once [fd00:10:244:2::/64 dev cilium_host table 47 metric 10]
		10.47.64.0/24 to udm via 10.47.0.2 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
		fd00:47:64::/112 to udm via fd00:47::2 once [32761: from all to fd00:47:64::/112 iif ingress0 unreachable]`)
	if p.Speak.Announce != nil {
		t.Error("the planner announces before the routes are in")
	}
}

// While the own link is missing the pod CIDR is not announced: what must be in
// first is not what the plan installs.
func TestOwnLinkMissingWithholds(t *testing.T) {
	w := seed()
	w.removeLink("cilium_host")
	p := w.make()
	for _, o := range p.Announce {
		if o.To == "" && slices.Contains(p.Routes, o.Needs) {
			t.Errorf("%s would be announced over %s", o.Prefix, o.Needs)
		}
	}
	p = seed().make()
	for _, o := range p.Announce {
		if o.To == "" && !slices.Contains(p.Routes, o.Needs) {
			t.Errorf("%s is never announced: %s is not planned", o.Prefix, o.Needs)
		}
		if o.To != "" && !slices.Contains(p.Rules, o.NeedsRule) {
			t.Errorf("%s is never announced: %s is not planned", o.Prefix, o.NeedsRule)
		}
	}
}

// A link that loses its address for the moment loses no session; the plan made
// of a flap tells the speaker nothing new.
func TestFlapEndsNoSession(t *testing.T) {
	for name, bend := range map[string]func(l *routing.Link){
		"down":            func(l *routing.Link) { l.Up, l.Carrier = false, false },
		"no carrier":      func(l *routing.Link) { l.Carrier = false },
		"no addresses":    func(l *routing.Link) { l.Addrs = nil },
		"tentative again": func(l *routing.Link) { l.Addrs[1].Tentative = true },
		"down, no IPv6":   func(l *routing.Link) { l.Up = false; l.Addrs = l.Addrs[:1] },
	} {
		for _, link := range []string{"pod0", "ingress0"} {
			w := seed()
			healthy := w.settle()
			bend(w.link(link))
			if got, want := spoken(w.make()), spoken(healthy); got != want {
				t.Errorf("%s %s: the speaker is told\n%swant\n%s", link, name, got, want)
			}
		}
	}
	w := seed()
	healthy := w.settle()
	w.removeLink("pod0")
	if got, want := spoken(w.make()), spoken(healthy); got != want {
		t.Errorf("pod0 gone: the speaker is told\n%swant\n%s", got, want)
	}
}

// A listener alone, with no peer yet, stays too.
func TestFlapKeepsListener(t *testing.T) {
	w := seed()
	w.removeNode("k8s-2")
	w.removeNode("k8s-3")
	w.converge()
	healthy := w.settle()
	w.link("pod0").Addrs[1].Tentative = true
	if got, want := spoken(w.make()), spoken(healthy); got != want {
		t.Errorf("the speaker is told\n%swant\n%s", got, want)
	}
}

// Without an earlier order nothing is bound to an address that is not usable.
func TestNothingOnUnusableAddress(t *testing.T) {
	w := seed()
	w.link("pod0").Addrs[1].Tentative = true
	p := w.make()
	for _, l := range p.Speak.Listen {
		if l.Addr == addr("fd00:48::1") || !l.Addr.IsValid() {
			t.Errorf("listens on %s", l.Addr)
		}
	}
	if neighbor(p, "k8s-2", routing.IPv6) != nil || neighbor(p, "k8s-2", routing.IPv4) == nil {
		t.Errorf("neighbors:\n%s", spoken(p))
	}
	if s := peerStatus(t, p, "k8s-2", routing.IPv6); s.Reason != "link pod0 address fd00:48::1 is tentative" {
		t.Errorf("reason %q", s.Reason)
	}

	w = seed()
	w.node("k8s-1").Annotations["net.renner.uno/pod0-v4"] = "10.48.0.9"
	wantSaid(t, w.make(), "node/k8s-1 OtherAddress: the other nodes are told that its address on pod0 is 10.48.0.9, but the link does not have it")

	w = seed()
	for i := range w.link("pod0").Addrs {
		w.link("pod0").Addrs[i].Secondary = true
	}
	delete(w.node("k8s-1").Annotations, "net.renner.uno/pod0-v4")
	p = w.make()
	for _, l := range p.Speak.Listen {
		if !l.Addr.IsValid() || l.Addr == addr("10.48.0.1") {
			t.Errorf("listens on %s", l.Addr)
		}
	}
	if s := peerStatus(t, p, "k8s-2", routing.IPv4); s.Reason != "link pod0 has no ipv4 address to send from" {
		t.Errorf("reason %q", s.Reason)
	}
}

// An address that is really another one moves the sessions.
func TestRenumberedLinkMovesSessions(t *testing.T) {
	w := seed()
	w.settle()
	w.link("pod0").Addrs[0].Prefix = netip.MustParsePrefix("10.48.0.7/24")
	w.node("k8s-1").Annotations["net.renner.uno/pod0-v4"] = "10.48.0.7"
	p := w.make()
	if n := neighbor(p, "k8s-2", routing.IPv4); n == nil || n.Local != addr("10.48.0.7") || !n.Passive {
		t.Errorf("sessions:\n%s", spoken(p))
	}
	if p.Speak.RouterID != addr("10.48.0.7") {
		t.Errorf("router ID %s", p.Speak.RouterID)
	}
}

// The address that this node is known by is the source, whatever stands first.
func TestSourceIsTheKnownAddress(t *testing.T) {
	w := seed()
	l := w.link("pod0")
	l.Addrs = append([]routing.LinkAddr{{Prefix: netip.MustParsePrefix("fd00:48::99/64")}}, l.Addrs...)
	if n := neighbor(w.make(), "k8s-2", routing.IPv6); n == nil || n.Local != addr("fd00:48::1") {
		t.Errorf("source %+v", n)
	}
}

func TestRouterID(t *testing.T) {
	configured := addr("192.0.2.1")
	for _, tc := range []struct {
		name string
		bend func(w *world)
		want string
	}{
		{"the mesh link's lowest IPv4 address", func(w *world) {
			w.link("pod0").Addrs = append(w.link("pod0").Addrs, routing.LinkAddr{Prefix: netip.MustParsePrefix("10.47.99.1/24")})
		}, "10.47.99.1"},
		{"configured", func(w *world) { w.Config.BGP.RouterID = configured }, "192.0.2.1"},
		{"in use, through a flap", func(w *world) { w.settle(); w.link("pod0").Addrs = nil }, "10.48.0.1"},
		{"in use, though a lower address is new", func(w *world) {
			w.settle()
			w.link("pod0").Addrs = append(w.link("pod0").Addrs, routing.LinkAddr{Prefix: netip.MustParsePrefix("10.47.99.1/24")})
		}, "10.48.0.1"},
		{"from the node's name", func(w *world) { w.link("pod0").Addrs = w.link("pod0").Addrs[1:] }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			tc.bend(w)
			id := w.make().Speak.RouterID
			if tc.want != "" && id != addr(tc.want) {
				t.Errorf("router ID %s, want %s", id, tc.want)
			}
			if !id.Is4() || id.IsUnspecified() || id.IsMulticast() {
				t.Errorf("router ID %s is none", id)
			}
			if again := w.make().Speak.RouterID; again != id {
				t.Errorf("router ID %s, then %s", id, again)
			}
		})
	}
}

// TestOwnAddressUntold: a node that does not say its address on the mesh link has the
// address all the same; only the others cannot know it.
func TestOwnAddressUntold(t *testing.T) {
	w := seed()
	delete(w.node("k8s-1").Annotations, "net.renner.uno/pod0-v4")
	p := w.make()
	wantSaid(t, p, "node/k8s-1 NoAddress: node k8s-1 has no annotation net.renner.uno/pod0-v4, so the other nodes have no ipv4 session with it")
	if strings.Contains(said(p), "ipv6 session with it") {
		t.Errorf("of the other family too:\n%s", said(p))
	}
	// Where nobody has one the family is not in use.
	for i := range w.Inventory.Nodes {
		delete(w.Inventory.Nodes[i].Annotations, "net.renner.uno/pod0-v4")
	}
	if strings.Contains(said(w.make()), "NoAddress") {
		t.Errorf("though nobody has one:\n%s", said(w.make()))
	}
}

// TestNoOwnEnd: while this end of the mesh cannot be used no peer is at fault. It is
// said once, by the class that waits for the link if there is one.
func TestNoOwnEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		bend func(*world)
		want string
	}{
		{"link down", func(w *world) { w.link("pod0").Up = false }, ""},
		{"link down, which is no class's", func(w *world) {
			w.link("pod0").Up = false
			w.Config.Classes = w.Config.Classes[2:]
		}, "mesh/ipv4 NoSession: no ipv4 session with any node: link pod0 is down\nmesh/ipv6 NoSession: no ipv6 session with any node: link pod0 is down\n"},
		{"no address of a family", func(w *world) {
			w.link("pod0").Addrs = slices.DeleteFunc(w.link("pod0").Addrs, func(a routing.LinkAddr) bool { return a.Prefix.Addr().Is6() })
		}, "mesh/ipv6 NoSession: no ipv6 session with any node: link pod0 has no ipv6 address\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := seed()
			test.bend(w)
			p, got := w.make(), ""
			for _, c := range p.Conditions {
				if c.Reason == "NoSession" {
					got += c.Object + " NoSession: " + c.Message + "\n"
				}
			}
			if got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			if st := peerStatus(t, p, "k8s-2", routing.IPv6); !strings.Contains(st.Reason, "link pod0 ") {
				t.Errorf("the peer says %q", st.Reason)
			}
		})
	}
}

func TestPasswords(t *testing.T) {
	w := seed()
	w.Config.BGP.Mesh.PasswordFile = "mesh"
	w.Config.BGP.Upstreams[0].PasswordFile = "udm"
	w.Passwords["udm"] = "u"
	p := w.make()
	if n := neighbor(p, "k8s-2", routing.IPv4); n != nil {
		t.Errorf("a session without its password: %v", n)
	}
	if s := peerStatus(t, p, "k8s-2", routing.IPv4); s.Reason != "password file mesh cannot be read" {
		t.Errorf("reason %q", s.Reason)
	}
	w.Unread = map[string]string{"mesh": "permission denied"}
	if s := peerStatus(t, w.make(), "k8s-2", routing.IPv4); s.Reason != "password file mesh cannot be read (permission denied): netclassctl reload once it can" {
		t.Errorf("reason %q", s.Reason)
	}
	w.Unread = nil
	if n := neighbor(p, "udm", routing.IPv4); n == nil || n.Password != "u" {
		t.Errorf("udm: %v", n)
	}
	if !slices.Contains(p.Speak.Listen, routing.Listen{Addr: addr("10.48.0.1"), Link: "pod0"}) {
		t.Error("a missing password stops the listener")
	}
	w.Passwords["mesh"] = "m"
	w.settle()
	w.Passwords = nil
	p = w.make()
	if n := neighbor(p, "k8s-2", routing.IPv4); n == nil || n.Password != "m" {
		t.Errorf("a session that is up loses its password: %v", n)
	}
	wantSaid(t, p, "peer/k8s-2/ipv4 PasswordNotRead: password file mesh cannot be read", "peer/udm/ipv6 PasswordNotRead: password file udm cannot be read")
	w.Speaking = nil
	wantSaid(t, w.make(), "peer/k8s-2/ipv4 NoSession: no session with k8s-2: password file mesh cannot be read",
		"peer/udm/ipv6 NoSession: no session with udm: password file udm cannot be read")
	w.Passwords = map[string]routing.Secret{"mesh": "new", "udm": "u"}
	if n := neighbor(w.make(), "k8s-2", routing.IPv4); n == nil || n.Password != "new" {
		t.Errorf("a new password is not taken: %v", n)
	}
}

func TestNoSession(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bend   func(w *world)
		peer   string
		reason string
	}{
		{"twin addresses", func(w *world) { w.node("k8s-3").Annotations["net.renner.uno/pod0-v4"] = "10.48.0.2" }, "k8s-3", "its address 10.48.0.2 is that of k8s-2"},
		{"our address", func(w *world) { w.node("k8s-3").Annotations["net.renner.uno/pod0-v4"] = "10.48.0.1" }, "k8s-3", "its address 10.48.0.1 is our own"},
		{"off the link", func(w *world) { w.node("k8s-3").Annotations["net.renner.uno/pod0-v4"] = "10.99.0.3" }, "k8s-3", "its address 10.99.0.3 is in no network of pod0"},
		{"mistyped, never good", func(w *world) { w.node("k8s-3").Annotations["net.renner.uno/pod0-v4"] = "x" }, "k8s-3", `node k8s-3: annotation net.renner.uno/pod0-v4: not an address: "x"`},
		{"link-local", func(w *world) { w.node("k8s-3").Annotations["net.renner.uno/pod0-v4"] = "169.254.0.3" }, "k8s-3", `node k8s-3: annotation net.renner.uno/pod0-v4: not an address of a node: "169.254.0.3"`},
		{"router off the link", func(w *world) { w.node("k8s-1").Annotations["net.renner.uno/egress-gw-v4"] = "10.99.0.1" }, "udm", "its address 10.99.0.1 is in no network of ingress0"},
		{"router's link missing", func(w *world) { w.removeLink("ingress0") }, "udm", "link ingress0 does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			tc.bend(w)
			p := w.make()
			if s := peerStatus(t, p, tc.peer, routing.IPv4); s.Reason != tc.reason {
				t.Errorf("reason %q, want %q", s.Reason, tc.reason)
			}
			if n := neighbor(p, tc.peer, routing.IPv4); n != nil {
				t.Errorf("there is a session: %v", n)
			}
			if neighbor(p, "k8s-2", routing.IPv4) == nil || neighbor(p, "k8s-2", routing.IPv6) == nil {
				t.Errorf("another peer is touched:\n%s", spoken(p))
			}
		})
	}
}

// A cluster of one family shows no sessions of the other.
func TestNoGhostSessions(t *testing.T) {
	w := seed()
	w.only(routing.IPv4)
	p := w.make()
	for _, s := range p.Peers {
		if s.Neighbor.Key.Family == routing.IPv6 {
			t.Errorf("a status of %s: %q", s.Neighbor.Key, s.Reason)
		}
	}
	if s := said(p); s != "" {
		t.Errorf("something is said:\n%s", s)
	}
}

func TestDialOnly(t *testing.T) {
	w := seed()
	w.Config.BGP.Listen = false
	p := w.make()
	if len(p.Speak.Listen) != 0 {
		t.Errorf("listens on %v", p.Speak.Listen)
	}
	for _, n := range p.Speak.Neighbors {
		if n.Passive {
			t.Errorf("%s waits for a call that cannot come", n.Key)
		}
	}
}

// The stop rule is withheld with its announcement where it would come before
// local delivery.
func TestAdvertiseNeedsTheStopRule(t *testing.T) {
	w := seed()
	for i := range w.Kernel.Rules {
		if w.Kernel.Rules[i].Table == routing.LocalID {
			w.Kernel.Rules[i].Priority = 32765
		}
	}
	p := w.make()
	for _, o := range p.Announce {
		if o.To == "udm" {
			t.Errorf("%s is advertised", o.Prefix)
		}
	}
	wantSaid(t, p, "peer/udm/ipv4 NotAdvertised: 10.47.64.0/24 is not advertised")
}

func TestAdvertiseAttributes(t *testing.T) {
	w := seed()
	a := &w.Config.BGP.Upstreams[0].Advertise
	a.Communities, a.MED, a.Prepend, a.LocalPreference = []string{"64512:1"}, 5, 2, 50
	for _, o := range w.make().Announce {
		if o.To == "udm" && (len(o.Communities) != 1 || o.MED != 5 || o.Prepend != 2 || o.LocalPreference != 50) {
			t.Errorf("%+v", o)
		}
	}
}

func TestNoSpeaker(t *testing.T) {
	w := seed()
	w.Config.BGP = nil
	p := w.make()
	if p.Speak != nil || len(p.Announce) != 0 {
		t.Errorf("%+v %v", p.Speak, p.Announce)
	}
}

// A node that is given the address of another by mistake does not take its
// session, though its name comes first.
func TestTwinAddressKeepsTheSession(t *testing.T) {
	w := seed()
	w.settle()
	w.node("k8s-2").Annotations["net.renner.uno/pod0-v4"] = "10.48.0.3"
	p := w.make()
	if n := neighbor(p, "k8s-3", routing.IPv4); n == nil {
		t.Errorf("k8s-3 has lost its session:\n%s", spoken(p))
	}
	if s := peerStatus(t, p, "k8s-2", routing.IPv4); s.Reason != "its address 10.48.0.3 is that of k8s-3" {
		t.Errorf("k8s-2: %q", s.Reason)
	}
}

// A router that is called like a node does not take that node's sessions.
func TestRouterNamedLikeANode(t *testing.T) {
	w := seed()
	healthy := w.make()
	w.Config.BGP.Upstreams[0].Name = "k8s-2"
	p := w.make()
	seen := make(map[routing.SessionKey]bool)
	for _, n := range p.Speak.Neighbors {
		if seen[n.Key] || n.Upstream {
			t.Errorf("session %s, upstream %t", n.Key, n.Upstream)
		}
		seen[n.Key] = true
	}
	if got, want := len(seen), len(healthy.Speak.Neighbors)-2; got != want {
		t.Errorf("%d sessions, want %d", got, want)
	}
	wantSaid(t, p, "peer/k8s-2/ipv4 NoSession: no session with the router k8s-2: a node has this name too; give the router another")
}
