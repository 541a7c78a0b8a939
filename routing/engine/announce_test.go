package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// announces reports whether an order has a prefix to originate.
func announces(s *routing.Speak, prefix string) bool {
	return s != nil && slices.ContainsFunc(s.Announce, func(a routing.Announcement) bool { return a.Prefix.String() == prefix })
}

// TestAnnounceOrder: nothing is announced before what it leads to is in the
// kernel, and it is withdrawn before that goes.
func TestAnnounceOrder(t *testing.T) {
	const own, vips = "10.244.1.0/24", "10.47.64.0/24"
	delivered := func(k *fakeKernel) bool {
		return k.has(func(rt routing.Route) bool { return rt.Dst.String() == own && rt.Link == "cilium_host" })
	}
	stopped := func(k *fakeKernel) bool {
		return slices.ContainsFunc(k.Picture().Rules, func(rule routing.Rule) bool { return rule.IIF == "ingress0" && rule.Family == v4 })
	}
	bubble(t, func(t *testing.T, r *rig) {
		announced := map[string]bool{}
		r.speaker.onSet = func(s *routing.Speak) {
			announced[own], announced[vips] = announces(s, own), announces(s, vips)
			if announced[own] && !delivered(r.kernel) {
				t.Error("own pod CIDR announced before its route is in")
			}
			if announced[vips] && !stopped(r.kernel) {
				t.Error("VIPs announced before their rule is in")
			}
		}
		r.kernel.onApply = func(ops []routing.Op) []error {
			for _, op := range ops {
				if op.Verb != routing.Add && !op.IsRule() && op.Route.Dst.String() == own && announced[own] ||
					op.Verb == routing.Delete && op.IsRule() && op.Rule.IIF != "" && op.Family() == v4 && announced[vips] {
					t.Errorf("%s while it is announced", op)
				}
			}
			return nil
		}
		// The link that delivers is not there yet.
		r.kernel.DeleteLink("cilium_host")
		r.start(seedConfig(t))
		if announced[own] || announced[vips] {
			t.Errorf("without cilium_host: announced %v", announced)
		}
		r.kernel.addLink("cilium_host")
		r.wait(200 * time.Millisecond)
		if !announced[own] || !announced[vips] {
			t.Errorf("with cilium_host: announced %v", announced)
		}
		// The link goes down just when the kernel is read, whose routes of it are
		// still there.
		r.kernel.set(func(k *fakeKernel) {
			k.onDump = func(p *routing.Kernel) { p.Link("cilium_host").Up = false }
		})
		r.engine.LookAndDump()
		r.wait(200 * time.Millisecond)
		if announced[own] || delivered(r.kernel) {
			t.Error("link down: still announced or delivered")
		}
		r.kernel.set(func(k *fakeKernel) { k.onDump = nil })
		r.kernel.SetUp("cilium_host", false)
		r.wait(200 * time.Millisecond)
		r.kernel.SetUp("cilium_host", true)
		r.wait(200 * time.Millisecond)
		if !announced[own] {
			t.Error("own pod CIDR is not announced again")
		}
		// Without BGP and the own routes nothing is left to announce.
		r.engine.Configure(seedConfig(t, "      own: {link: cilium_host}\n", "", "\nbgp:", "\n#bgp:", "  asn: 64512\n", "",
			"  mesh: {link: pod0}\n", "", "  upstreams:\n", "", "    - name: udm\n", "", "      link: ingress0\n      peerASN: 64513\n", "",
			"      address: {ipv4: {annotation: net.renner.uno/egress-gw-v4}, ipv6: {annotation: net.renner.uno/egress-gw-v6}}\n", "",
			"      advertise: {networks: [loadBalancers]}\n", "", "learn: bgp", "learn: nodes"), routing.ConfigStatus{}, nil)
		r.wait(200 * time.Millisecond)
		if delivered(r.kernel) || stopped(r.kernel) {
			t.Error("the old configuration's route or rule is still there")
		}
		orders := r.speaker.taken()
		if orders[len(orders)-1] != nil {
			t.Error("the speaker was not ended")
		}
	})
}

// TestPeerGoes: one order tells the speaker of the peer that went.
func TestPeerGoes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.speaker.taken()
		r.setNodes(seedNodes(t)[:2]...)
		r.engine.Look()
		r.wait(200 * time.Millisecond)
		orders := r.speaker.taken()
		if len(orders) != 1 || len(orders[0].Neighbors) != 4 {
			t.Errorf("%d orders", len(orders))
		}
	})
}

func TestSpeakerErrors(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.speaker.mu.Lock()
		r.speaker.status.Errors = []string{"listen 10.48.0.1:179: address already in use"}
		r.speaker.mu.Unlock()
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		if r.condition("speaker", "CannotDo") == nil || r.state().Health != routing.Degraded {
			t.Errorf("conditions %v", r.state().Conditions)
		}
		r.speaker.mu.Lock()
		r.speaker.status.Errors, r.speaker.status.PID, r.speaker.status.LastExit = nil, 0, "signal: killed"
		r.speaker.mu.Unlock()
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		if c := r.condition("speaker", "NotRunning"); c == nil || c.Message != "signal: killed" || r.condition("speaker", "CannotDo") != nil {
			t.Errorf("conditions %v", r.state().Conditions)
		}
		r.speaker.mu.Lock()
		r.speaker.status.Wanted, r.speaker.status.PID = false, 7
		r.speaker.mu.Unlock()
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		if c := r.condition("speaker", "NotEnded"); c == nil || !strings.Contains(c.Message, "pid 7") || r.condition("speaker", "NotRunning") != nil {
			t.Errorf("conditions %v", r.state().Conditions)
		}
	})
}

// TestAnnouncedIsShown: the state has what the speaker was told to originate, and no
// longer what has been taken back.
func TestAnnouncedIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		shown := func(prefix string) bool { return announces(&routing.Speak{Announce: r.state().Announced}, prefix) }
		if !shown("10.244.1.0/24") || !shown("10.47.64.0/24") {
			t.Errorf("announced: %v", r.state().Announced)
		}
		r.kernel.DeleteLink("cilium_host")
		r.wait(1500 * time.Millisecond)
		if shown("10.244.1.0/24") || shown("10.47.64.0/24") {
			t.Errorf("without cilium_host: %v", r.state().Announced)
		}
	})
}

// TestHungSpeaker: a speaker that confirms nothing keeps the kernel waiting for
// no longer than a withdrawal is worth.
func TestHungSpeaker(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.speaker.mu.Lock()
		r.speaker.hung = true
		r.speaker.mu.Unlock()
		r.kernel.taken()
		r.kernel.DeleteLink("cilium_host")
		r.wait(1500 * time.Millisecond)
		if !r.kernel.has(func(rt routing.Route) bool { return rt.Type == routing.Throw && rt.Dst.String() == "10.244.1.0/24" }) {
			t.Error("the kernel still waits")
		}
		r.speaker.taken()
		r.wait(time.Minute)
		if o := r.speaker.taken(); len(o) > 0 {
			t.Errorf("%d orders again", len(o))
		}
	})
}

// TestOtherAttributes: an announcement that only gets other attributes, as with
// the graceful shutdown that a drain begins with, is not withdrawn in between.
func TestOtherAttributes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(seedConfig(t))
		r.speaker.onSet = func(s *routing.Speak) {
			if !announces(s, "10.47.64.0/24") {
				t.Error("withdrawn in between")
			}
		}
		r.engine.Configure(seedConfig(t, "advertise: {networks: [loadBalancers]}", `advertise: {networks: [loadBalancers], communities: ["65535:0"]}`), routing.ConfigStatus{}, nil)
		r.wait(200 * time.Millisecond)
		orders := r.speaker.taken()
		last := orders[len(orders)-1].Announce
		if i := slices.IndexFunc(last, func(a routing.Announcement) bool { return a.To == "udm" }); i < 0 || len(last[i].Communities) != 1 {
			t.Errorf("the last order announces %v", last)
		}
	})
}
