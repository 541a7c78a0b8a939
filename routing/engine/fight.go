package engine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

// A fight is another program undoing what we do, again and again: a network
// manager that takes what it did not configure for a leftover, say. What it
// undoes is put back at once; once it has done so fightAfter times within
// fightWindow, only every fightPause, where the packets have another way
// meanwhile. Where they have none they would be lost, or leave by a router:
// guard, fence, and what the fence would stop are put back at once always.
const (
	fightAfter  = 5
	fightWindow = time.Minute
	fightPause  = 5 * time.Second
)

// object names a rule or a route that somebody may fight over.
type object struct {
	rule  routing.Rule
	route routing.RouteKey
}

func objectOf(op routing.Op) object {
	if op.IsRule() {
		return object{rule: op.Rule}
	}
	return object{route: op.Route.Key()}
}

// fight is what is remembered of an object that was undone.
type fight struct {
	op     routing.Op  // what puts it back
	lost   []time.Time // the newest fightAfter times
	healed time.Time
	by     string
}

// on reports whether it is a fight by now.
func (f *fight) on(now time.Time) bool {
	return len(f.lost) == fightAfter && now.Sub(f.lost[0]) < fightWindow
}

// fights are the objects that others have undone lately.
type fights map[object]*fight

// notice takes in what ops say was undone: what they put in, and the picture
// before the newest dump had. It reports whether a fight has begun.
func (fs fights) notice(now time.Time, ops []routing.Op, before *routing.Kernel, by string) (begun bool) {
	asked := make(map[object]routing.Route) // what the ops put in
	for _, op := range ops {
		if op.Verb != routing.Delete {
			asked[objectOf(op)] = op.Route
		}
	}
	had := make(map[object]bool)
	for _, r := range before.Rules {
		o := object{rule: r}
		if _, is := asked[o]; is {
			had[o] = true
		}
	}
	for i := range before.Routes {
		o := object{route: before.Routes[i].Key()}
		if want, is := asked[o]; is && want == before.Routes[i].Wanted() {
			had[o] = true
		}
	}
	for _, op := range ops {
		o := objectOf(op)
		if !had[o] {
			continue
		}
		f := fs[o]
		if f == nil {
			f = &fight{}
			fs[o] = f
		}
		was := f.on(now)
		f.op, f.by = op, by
		f.lost = append(f.lost, now)
		f.lost = f.lost[max(0, len(f.lost)-fightAfter):]
		begun = begun || !was && f.on(now)
	}
	return begun
}

// forget ends what has been quiet for long enough.
func (fs fights) forget(now time.Time) {
	for o, f := range fs {
		if now.Sub(f.lost[len(f.lost)-1]) >= fightWindow {
			delete(fs, o)
		}
	}
}

// withhold takes the defaults out of a plan whose fence is fought over: in each
// moment that the fence is not whole, cluster packets would leave by them.
func (fs fights) withhold(now time.Time, p *routing.Plan) {
	for _, f := range fs {
		if f.op.Stage != routing.StageFence || !f.on(now) {
			continue
		}
		key := routing.RouteKey{Table: f.op.Table(), Dst: f.op.Family().Default(), Metric: routing.MetricPath}
		p.Routes = slices.DeleteFunc(p.Routes, func(r routing.Route) bool { return r.Key() == key })
		p.Unsafe = append(p.Unsafe, key)
	}
}

// limit returns the ops without those that have to wait.
func (fs fights) limit(now time.Time, ops []routing.Op, p *routing.Plan, k *routing.Kernel) []routing.Op {
	if len(fs) == 0 {
		return ops
	}
	kept := make([]routing.Op, 0, len(ops))
	instead := standIns(ops, k)
	for _, op := range ops {
		f := fs[objectOf(op)]
		if f == nil || op.Verb == routing.Delete {
			kept = append(kept, op)
			continue
		}
		if f.on(now) && now.Sub(f.healed) < fightPause && mayWait(op, p, k, instead) {
			continue
		}
		f.healed = now
		kept = append(kept, op)
	}
	return kept
}

// standIn is the route that packets follow while a path or a default is missing.
func standIn(op routing.Op) routing.RouteKey {
	key := op.Route.Key()
	key.Metric = routing.MetricFallback
	if op.Stage == routing.StageDefault {
		key.Metric = routing.MetricHold
	}
	return key
}

// standIns returns which of the ops' stand-ins the kernel has.
func standIns(ops []routing.Op, k *routing.Kernel) map[routing.RouteKey]bool {
	asked := make(map[routing.RouteKey]bool)
	for _, op := range ops {
		if !op.IsRule() && (op.Stage == routing.StageDefault || op.Stage == routing.StagePeers) {
			asked[standIn(op)] = false
		}
	}
	for i := 0; i < len(k.Routes) && len(asked) > 0; i++ {
		if r := &k.Routes[i]; r.Metric == routing.MetricFallback || r.Metric == routing.MetricHold {
			if _, is := asked[r.Key()]; is {
				asked[r.Key()] = true
			}
		}
	}
	return asked
}

// mayWait reports whether packets go another way within the cluster, or as
// without us, while an object is missing. It is told which stand-ins there are.
func mayWait(op routing.Op, p *routing.Plan, k *routing.Kernel, instead map[routing.RouteKey]bool) bool {
	if op.Verb != routing.Add {
		return false // what stands in its place may lead anywhere
	}
	if op.IsRule() {
		// Another rule of ours would take the packets to a table without their way.
		return op.Stage == routing.StageRules && op.Rule.Action == routing.ActionLookup &&
			!slices.ContainsFunc(k.Rules, func(r routing.Rule) bool {
				return p.Own.HasRule(&r) && r.Family == op.Rule.Family && r.Action == routing.ActionLookup &&
					meet(r.From, op.Rule.From) && meet(r.To, op.Rule.To)
			})
	}
	stands := instead[standIn(op)]
	switch op.Stage {
	case routing.StageDefault: // then the next rule decides
		return !stands && op.Route.Metric == routing.MetricPath
	case routing.StagePeers:
		return stands && op.Route.Metric == routing.MetricPath
	}
	return false
}

func meet(a, b netip.Prefix) bool { return !a.IsValid() || !b.IsValid() || a.Overlaps(b) }

// due returns when the next thing happens by itself: something is put back, or
// a fight is over.
func (fs fights) due(now time.Time) (due time.Time, any bool) {
	for _, f := range fs {
		if !f.on(now) {
			continue
		}
		at := f.lost[0].Add(fightWindow)
		if next := f.healed.Add(fightPause); next.After(now) && next.Before(at) {
			at = next
		}
		if !any || at.Before(due) {
			due, any = at, true
		}
	}
	return due, any
}

// conditions says what is fought over, and with whom.
func (fs fights) conditions(now time.Time, add func(object, reason, message string)) {
	for _, f := range fs {
		if !f.on(now) {
			continue
		}
		name, often := "route/"+f.op.Route.String(), "it is put back at once"
		if f.op.IsRule() {
			name = "rule/" + f.op.Rule.String()
		}
		if f.op.Stage == routing.StageFence {
			often += ", and the table has no " + f.op.Family().String() + " default meanwhile"
		} else if waits := f.op.Stage == routing.StageRules || f.op.Stage == routing.StageDefault || f.op.Stage == routing.StagePeers; waits {
			often = fmt.Sprintf("it is put back at most every %v where its packets have another way", fightPause)
		}
		by := "another program"
		if f.by != "" {
			by = f.by
		}
		add(name, fightReason, by+" undoes it again and again; "+often+advice(f.by))
	}
}

// fightReason is the reason of the condition that somebody fights with us.
const fightReason = "Fight"

// advice is how to end a fight with a program that is known for it.
func advice(by string) string {
	name, _, _ := strings.Cut(by, " ")
	switch {
	case strings.HasPrefix("systemd-networkd", name) && len(name) >= 15: // the kernel keeps 15 bytes of a name
		return ". In networkd.conf set ManageForeignRoutingPolicyRules=no and ManageForeignRoutes=no"
	case name == "machined" || name == "init":
		return ". Talos removes static rules of the family and priority of one that its configuration declares: choose other priorities"
	}
	return ""
}
