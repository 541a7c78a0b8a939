package engine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"netclass.dev/routing"
)

const (
	v4 = routing.IPv4
	v6 = routing.IPv6
)

// TestSessionEnds is about what a session's end makes of the peer's class path:
// whether it is still there, how long after the end.
func TestSessionEnds(t *testing.T) {
	type look struct {
		after time.Duration // since the end
		path  bool
	}
	for name, tt := range map[string]struct {
		cause   routing.DownCause
		restart time.Duration // of the peer; 0: 10 s
		config  []string
		dead    time.Duration // since the end; -1: lives
		looks   []look
		why     string // of the class, in the end
	}{
		"connection lost, alive": {
			cause: routing.CauseConnection, dead: -1,
			looks: []look{{100 * time.Millisecond, true}, {9900 * time.Millisecond, true}, {10100 * time.Millisecond, false}},
		},
		"the peer's restart time is shorter": {
			cause: routing.CauseConnection, restart: 4 * time.Second, dead: -1,
			looks: []look{{3900 * time.Millisecond, true}, {4100 * time.Millisecond, false}},
		},
		"the peer's restart time is longer": {
			cause: routing.CauseConnection, restart: 120 * time.Second, dead: -1,
			looks: []look{{9900 * time.Millisecond, true}, {10100 * time.Millisecond, false}},
		},
		"connection lost, dead": {
			cause: routing.CauseConnection, why: "its session is down (connection lost) and it does not answer",
			looks: []look{{2 * time.Second, true}, {3900 * time.Millisecond, false}},
		},
		"dies later in the hold": {
			cause: routing.CauseConnection, dead: 5 * time.Second,
			looks: []look{{5 * time.Second, true}, {8900 * time.Millisecond, false}},
		},
		"hold timer, alive": {
			cause: routing.CauseHoldTimer, dead: -1, why: "its session is down (hold timer expired) for longer than its paths are held",
			looks: []look{{3 * time.Second, true}, {9900 * time.Millisecond, true}, {10100 * time.Millisecond, false}},
		},
		"hold timer, silent": {
			cause: routing.CauseHoldTimer,
			looks: []look{{900 * time.Millisecond, true}, {1200 * time.Millisecond, false}},
		},
		"cease":        {cause: routing.CauseCease, dead: -1, looks: []look{{100 * time.Millisecond, false}}, why: "its session is down (cease)"},
		"notification": {cause: routing.CauseError, dead: -1, looks: []look{{100 * time.Millisecond, false}}},
		"peer without graceful restart": {
			cause: routing.CauseConnection, restart: -1, dead: -1, looks: []look{{100 * time.Millisecond, false}},
		},
		"graceful restart off": {
			cause: routing.CauseConnection, dead: -1,
			config: []string{"asn: 64512", "asn: 64512\n  gracefulRestart: {restartTime: 0s}"},
			looks:  []look{{100 * time.Millisecond, false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.start(seedConfig(t, tt.config...))
				r.establish("k8s-2", "k8s-3")
				r.session("k8s-2", v4, func(s *routing.Session) {
					if tt.restart != 0 {
						s.PeerRestartTime = max(tt.restart, 0)
					}
				})
				r.wait(time.Second)
				r.wantPath("k8s-2", v4, true, "at first")
				if tt.dead == 0 {
					r.kernel.die(hopOf("k8s-2", v4), true)
				} else if tt.dead > 0 {
					time.AfterFunc(tt.dead, func() { r.kernel.die(hopOf("k8s-2", v4), true) })
				}
				r.down("k8s-2", v4, tt.cause)
				start := time.Now()
				for _, l := range tt.looks {
					r.wait(time.Until(start.Add(l.after)))
					r.wantPath("k8s-2", v4, l.path, l.after.String()+" after the end")
					// Families and peers are independent.
					r.wantPath("k8s-2", v6, true, "the other family")
					r.wantPath("k8s-3", v4, true, "the other peer")
					if p := r.peer("k8s-2", v4); p.Held != l.path || l.path && p.HeldTill.IsZero() {
						t.Errorf("%s after the end: held %v till %v", l.after, p.Held, p.HeldTill)
					}
				}
				if !r.kernel.has(func(rt routing.Route) bool {
					return rt.Dst.String() == "10.244.2.0/24" && rt.Metric == routing.MetricFallback
				}) {
					t.Error("no fallback")
				}
				for _, c := range r.state().Plan.Classes {
					want := "1 of 4 pod CIDRs of peers are not reached over pod0: k8s-2 (" + tt.why + ")"
					if tt.why != "" && c.Class.Name == "pod-pod" && c.Reason != want {
						t.Errorf("class says %q, want %q", c.Reason, want)
					}
				}
				before, probes := r.kernel.count()
				r.wait(10 * time.Second)
				if dumps, after := r.kernel.count(); after > probes+1 || dumps > before+1 {
					t.Errorf("still probing: %d; dumps: %d", after-probes, dumps-before)
				}
			})
		})
	}
}

func (r *rig) peer(node string, f routing.Family) routing.PeerStatus {
	for _, p := range r.state().Peers {
		if p.Neighbor.Key == (routing.SessionKey{Peer: node, Family: f}) {
			return p
		}
	}
	return routing.PeerStatus{}
}

// TestReturnsWithinHold: what it says until end-of-RIB replaces what was held.
func TestReturnsWithinHold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		nodes := seedNodes(t)
		extra := routePrefix("10.244.22.0/24")
		nodes[1].PodCIDRs = append(nodes[1].PodCIDRs, extra)
		r.setNodes(nodes...)
		r.converge()
		hasExtra := func() bool {
			return r.kernel.has(func(rt routing.Route) bool { return rt.Dst == extra && rt.Metric == routing.MetricPath })
		}
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(2 * time.Second)
		if !hasExtra() {
			t.Fatal("not held")
		}
		r.kernel.taken()
		r.session("k8s-2", v4, func(s *routing.Session) {
			r.up(s, false)
			s.Paths = s.Paths[:1]
		})
		r.wait(5 * time.Second)
		if got := r.kernel.taken(); len(got) > 0 || !hasExtra() {
			t.Errorf("before end-of-RIB:\n%s", textOf(opsOf(got)))
		}
		if p := r.peer("k8s-2", v4); p.Held || p.Session.State != routing.Established {
			t.Errorf("an established session is shown as held: %+v", p)
		}
		r.session("k8s-2", v4, func(s *routing.Session) { s.EndOfRIB = true })
		r.wait(100 * time.Millisecond)
		if got, want := textOf(opsOf(r.kernel.taken())), "drop peers: delete route 10.244.22.0/24 via 10.48.0.2 dev pod0 table 47 metric 10\n"; got != want {
			t.Errorf("at end-of-RIB:\n%swant:\n%s", got, want)
		}
	})
}

// TestNoEndOfRIB: a peer that never says it is done is taken at its word when
// the restart time is over.
func TestNoEndOfRIB(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(time.Second)
		r.session("k8s-2", v4, func(s *routing.Session) { r.up(s, false); s.Paths = nil })
		r.wait(9900 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "before the restart time is over")
		r.wait(300 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "when the restart time is over")
		if !r.state().Pass.Synced {
			t.Error("not synced")
		}
	})
}

// TestBetweenTwoLooks: a session that ended and came up again before anybody
// looked loses nothing.
func TestBetweenTwoLooks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.taken()
		r.session("k8s-2", v4, func(s *routing.Session) { r.up(s, false); s.Paths = nil })
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, true, "before end-of-RIB")
		// Not only because the kernel still has it.
		for _, rt := range r.kernel.ours() {
			if rt.Via == hopOf("k8s-2", v4) {
				r.kernel.foreign(routing.Delete, rt)
			}
		}
		r.wait(100 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "deleted by another before end-of-RIB")
		r.kernel.taken()
		r.session("k8s-2", v4, func(s *routing.Session) { since := s.Since; r.up(s, true); s.Since = since })
		r.wait(time.Second)
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("ops:\n%s", textOf(opsOf(got)))
		}
		// Held, up again and ended by CEASE, all unseen.
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, true, "held")
		r.down("k8s-2", v4, routing.CauseCease)
		r.wait(100 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "after CEASE")
	})
}

// TestLateAnswer: the answer of a probe from before the session came up again
// says nothing of the next end.
func TestLateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.die(hopOf("k8s-2", v4), true)
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(2500 * time.Millisecond)
		r.kernel.die(hopOf("k8s-2", v4), false)
		r.session("k8s-2", v4, func(s *routing.Session) { r.up(s, true) })
		r.wait(100 * time.Millisecond)
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(5 * time.Second)
		r.wantPath("k8s-2", v4, true, "alive")
	})
}

func TestOwnLinkDown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(time.Second)
		r.kernel.SetCarrier("pod0", false)
		r.wait(100 * time.Millisecond)
		for _, node := range []string{"k8s-2", "k8s-3"} {
			for _, f := range routing.Families {
				r.wantPath(node, f, false, "link down")
			}
		}
		r.kernel.SetCarrier("pod0", true)
		r.wait(100 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "held when the link went down")
		r.wantPath("k8s-3", v4, true, "its session outlived the flap")
	})
}

func TestSpeakerDies(t *testing.T) {
	for name, die := range map[string]func(*rig){
		"sessions are shown as down": func(r *rig) { r.speaker.die() },
		"sessions are not shown": func(r *rig) {
			r.speaker.mu.Lock()
			r.speaker.sessions = nil
			r.speaker.mu.Unlock()
			r.engine.Look()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.converge()
				r.kernel.taken()
				die(r)
				r.wait(9 * time.Second)
				if got := r.kernel.taken(); len(got) > 0 {
					t.Errorf("ops:\n%s", textOf(opsOf(got)))
				}
				if p := r.peer("k8s-2", v4); !p.Held {
					t.Error("not held")
				}
				r.wait(2 * time.Second)
				r.wantPath("k8s-2", v4, false, "after the restart time")
			})
		})
	}
}

// TestRemovedNode: the inventory's word beats held.
func TestRemovedNode(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, true, "held")
		r.setNodes(slices.DeleteFunc(seedNodes(t), func(n routing.Node) bool { return n.Name == "k8s-2" })...)
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "removed")
		r.wantPath("k8s-2", v6, false, "removed")
		if _, probes := r.kernel.count(); probes > 0 {
			r.wait(5 * time.Second)
			if _, later := r.kernel.count(); later > probes {
				t.Error("a removed node is still probed")
			}
		}
	})
}

// TestProbeCannotBeMade: what is not known to be dead is held.
func TestProbeCannotBeMade(t *testing.T) {
	for _, cause := range []routing.DownCause{routing.CauseConnection, routing.CauseHoldTimer} {
		bubble(t, func(t *testing.T, r *rig) {
			r.converge()
			r.kernel.set(func(k *fakeKernel) { k.probing = errors.New("no buffer space available") })
			r.down("k8s-2", v4, cause)
			r.wait(9900 * time.Millisecond)
			r.wantPath("k8s-2", v4, true, "within the restart time")
			r.wait(200 * time.Millisecond)
			r.wantPath("k8s-2", v4, false, "after it")
		})
	}
}

// TestFlap: a link that goes down and comes back, seen or not, ends no session,
// and everything is back at once.
func TestFlap(t *testing.T) {
	for _, down := range []time.Duration{0, 5 * time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T, r *rig) {
			r.converge()
			want := r.kernel.text()
			r.speaker.taken()
			r.kernel.SetUp("pod0", false)
			r.wait(down)
			if down >= time.Second {
				r.wantPath("k8s-2", v4, false, "link down")
			}
			r.kernel.SetUp("pod0", true)
			r.kernel.addAddrs("pod0")
			r.wait(200 * time.Millisecond)
			if got := r.kernel.text(); got != want {
				t.Errorf("down for %s: kernel:\n%s", down, got)
			}
			for _, o := range r.speaker.taken() {
				if len(o.Neighbors) != 6 || len(o.Listen) != 4 {
					t.Errorf("down for %s: an order of %d sessions, %d addresses to listen on", down, len(o.Neighbors), len(o.Listen))
				}
			}
			if s := r.state(); !s.Pass.Synced {
				t.Errorf("down for %s: not synced", down)
			}
		})
	}
}
