package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestDisturbed does everything at once and in any order that can happen to a
// node, and looks whether it comes back to the same state, and rests in it.
func TestDisturbed(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.converge()
				rng := rand.New(rand.NewPCG(seed, 1))
				foreign := []routing.Route{
					{Table: 47, Dst: routePrefix("192.0.2.0/24"), Metric: 7, Protocol: 4, Type: routing.Blackhole},
					{Table: routing.MainID, Dst: routePrefix("10.244.0.0/16"), Metric: 7, Protocol: 12, Type: routing.Unreachable},
					{Table: 99, Dst: routePrefix("2001:db8::/32"), Metric: 7, Protocol: routing.ProtocolNetclass, Type: routing.Blackhole},
				}
				r.kernel.foreign(routing.Add, foreign...)
				want := sortedLines(r.kernel.text())
				// Half of the runs are spared others who delete our routes, and
				// are held to what must be true after every single change.
				strict := seed%2 == 0
				if strict {
					r.kernel.set(func(k *fakeKernel) { k.applied = func(op routing.Op, k *routing.Kernel) { safe(t, op, k) } })
				}
				for range 80 {
					r.disturb(rng, strict)
					time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond * time.Duration(rng.IntN(2)))
				}
				r.calm()
				if got := sortedLines(r.kernel.text()); got != want {
					t.Errorf("kernel:\n%s\nwant:\n%s", got, want)
				}
				if s := r.state(); !s.Pass.Synced || s.Health != routing.Ready || len(s.Conditions) > 0 {
					t.Errorf("health %s, pass %+v, conditions %v", s.Health, s.Pass, s.Conditions)
				}
				if o := r.speaker.taken(); len(o) > 0 {
					last := o[len(o)-1]
					if len(last.Neighbors) != 6 || len(last.Announce) != 4 || len(last.Listen) != 4 {
						t.Errorf("the last order is %+v", last)
					}
				}
				r.kernel.taken()
				r.engine.LookAndDump()
				r.wait(time.Second)
				if got := r.kernel.taken(); len(got) > 0 {
					t.Errorf("does not rest:\n%s", textOf(opsOf(got)))
				}
			})
		})
	}
}

// safe checks what must be true after every change: no default without the
// whole fence of its family, and no rule into a table without the guard.
func safe(t *testing.T, op routing.Op, k *routing.Kernel) {
	fences := map[routing.Family][]string{
		v4: {"10.244.0.0/16", "10.96.0.0/16", "10.46.0.0/24", "10.47.64.0/24", "10.48.0.0/24", "10.40.0.0/24", "10.47.0.0/24"},
		v6: {"fd00:10:244::/48", "fd00:10:96::/112", "fd00:46::/64", "fd00:47:64::/112", "fd00:48::/64", "fd00:40::/64", "fd00:47::/64"},
	}
	guards := map[routing.Family][]string{
		v4: {"10.244.0.0/16", "10.46.0.0/24", "10.48.0.0/24"}, v6: {"fd00:10:244::/48", "fd00:46::/64", "fd00:48::/64"},
	}
	has := func(table routing.TableID, prefix string, metric uint32) bool {
		return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
			return r.Table == table && r.Metric == metric && r.Type == routing.Unreachable && r.Dst.String() == prefix
		})
	}
	for _, r := range k.Routes {
		if r.Dst.Bits() > 0 || r.Type != routing.Unicast || r.Protocol != routing.ProtocolNetclass {
			continue
		}
		for _, p := range fences[r.Family()] {
			if !has(r.Table, p, routing.MetricFence) {
				t.Errorf("after %s: %s without the fence of %s", op, r, p)
			}
		}
	}
	for _, r := range k.Rules {
		if r.Protocol != routing.ProtocolNetclass || r.Action != routing.ActionLookup {
			continue
		}
		for _, p := range guards[r.Family] {
			if !has(routing.MainID, p, routing.MetricGuard) {
				t.Errorf("after %s: rule %q without the guard of %s", op, r, p)
			}
		}
	}
}

// disturb does one thing.
func (r *rig) disturb(rng *rand.Rand, strict bool) {
	links := []string{"mgmt0", "node0", "ingress0", "pod0", "cilium_host"}
	link := links[rng.IntN(len(links))]
	node := []string{"k8s-2", "k8s-3"}[rng.IntN(2)]
	family := routing.Families[rng.IntN(2)]
	switch rng.IntN(14) {
	case 0:
		r.kernel.SetCarrier(link, rng.IntN(2) == 0)
	case 1:
		up := rng.IntN(2) == 0
		r.kernel.SetUp(link, up)
		if up {
			r.kernel.addAddrs(link)
		}
	case 2: // a flap within the time of one look
		r.kernel.SetUp(link, false)
		r.kernel.SetUp(link, true)
		r.kernel.addAddrs(link)
	case 3:
		if r.kernel.Picture().Link(link) != nil {
			r.kernel.DeleteLink(link)
		} else {
			r.kernel.addLink(link)
		}
	case 4:
		ours := slices.DeleteFunc(r.kernel.ours(), func(rt routing.Route) bool { return rt.Protocol != routing.ProtocolNetclass || rt.Table == 99 })
		if len(ours) > 0 && !strict {
			r.kernel.foreign(routing.Delete, ours[rng.IntN(len(ours))])
		}
	case 5:
		r.down(node, family, []routing.DownCause{routing.CauseConnection, routing.CauseCease, routing.CauseHoldTimer, routing.CauseError}[rng.IntN(4)])
	case 6:
		if r.nodes.Load().Node(node) != nil {
			r.session(node, family, func(s *routing.Session) { r.up(s, rng.IntN(2) == 0) })
		}
	case 7:
		r.kernel.die(hopOf(node, family), rng.IntN(2) == 0)
	case 8:
		r.speaker.die()
	case 9:
		nodes := seedNodes(r.t)
		if rng.IntN(2) == 0 {
			nodes = slices.DeleteFunc(nodes, func(n routing.Node) bool { return n.Name == node || rng.IntN(4) == 0 })
		}
		r.setNodes(nodes...)
		r.engine.Look()
	case 10:
		var n int
		refuse := rng.IntN(2) == 0
		r.kernel.set(func(k *fakeKernel) {
			k.onApply = func(ops []routing.Op) []error {
				errs := make([]error, len(ops))
				for i := range ops {
					if n++; refuse && n%3 == 0 {
						errs[i] = errors.New("refused")
					}
				}
				return errs
			}
		})
	case 11:
		r.kernel.set(func(k *fakeKernel) {
			k.dumpErr = nil
			if rng.IntN(2) == 0 {
				k.dumpErr = errors.New("interrupted")
			}
		})
	case 12: // a restart of the daemon
		r.end()
		if rng.IntN(2) == 0 {
			if err := r.engine.Stop(routing.ExitKeep); err != nil {
				r.t.Error(err)
			}
		}
		r.speaker = &fakeSpeaker{}
		r.make()
		r.start(seedConfig(r.t))
	case 13: // another configuration, and perhaps back
		if rng.IntN(2) == 0 {
			r.engine.Configure(seedConfig(r.t, "id: 47", "id: 48", "ipv6: 1000, ipv4: 1001", "ipv6: 1100, ipv4: 1101"), routing.ConfigStatus{}, nil)
		} else {
			r.engine.Configure(seedConfig(r.t), routing.ConfigStatus{}, nil)
		}
	}
}

// calm ends every disturbance and waits until all is well again.
func (r *rig) calm() {
	r.kernel.set(func(k *fakeKernel) { k.onApply, k.dumpErr = nil, nil; clear(k.dead) })
	for _, s := range seedAddrs {
		if r.kernel.Picture().Link(s.link) == nil {
			r.kernel.addLink(s.link)
		}
		r.kernel.SetUp(s.link, true)
		r.kernel.SetCarrier(s.link, true)
		r.kernel.addAddrs(s.link)
	}
	r.kernel.cni()
	r.setNodes(seedNodes(r.t)...)
	r.engine.Configure(seedConfig(r.t), routing.ConfigStatus{}, nil)
	r.wait(15 * time.Second)
	r.establish("udm", "k8s-2", "k8s-3")
	r.wait(15 * time.Second)
}
