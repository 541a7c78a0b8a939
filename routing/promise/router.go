package promise

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// The proof that no router can come to carry cluster traffic has two halves.
// The networks between which the classes carry traffic inside the cluster, and
// those of links without a router, must be guarded in main and fenced in every
// table with a default: that holds whatever else is missing. And whoever sends,
// the worst case of each must not be answered with a router: an address that no
// route leads to, and in turn every peer's pod and addresses.

// inside lists the networks that the classes carry traffic between, without what is
// behind routers. One that no node is in, as those of Services, is not routed as such.
func (v *View) inside() []string {
	var names []string
	for i := range v.Config.Classes {
		for _, t := range v.Config.Classes[i].Traffic {
			if v.far(t.From) || v.far(t.To) {
				continue
			}
			for _, name := range []string{t.From, t.To} {
				if !slices.Contains(names, name) && v.inhabited(name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func (v *View) inhabited(name string) bool {
	return len(v.Inventory.Nodes) == 0 || slices.ContainsFunc(routing.Families[:], func(f routing.Family) bool {
		return v.inhabits(v.network(name, f))
	})
}

// linkNetworks lists the networks of class links without a router.
func (v *View) linkNetworks(f routing.Family) []netip.Prefix {
	var all []netip.Prefix
	for i := range v.Config.Classes {
		c := &v.Config.Classes[i]
		if c.Delegated || v.leadsOut(c.Link) {
			continue
		}
		for _, p := range ofFamily(v.Plan.Links[c.Link], f) {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// unguarded says why the first half of the proof fails; empty: it holds. It is
// by choice when the configuration, or what this node lacks, leaves no more to
// expect.
func (v *View) unguarded() (why string, choice bool) {
	names := v.inside()
	if len(names) == 0 {
		return "no class carries traffic between nodes or pods", true
	}
	if v.Config.Guard == nil {
		return "there is no guard for " + strings.Join(names, ", "), true
	}
	for _, name := range names {
		if !slices.Contains(v.Config.Guard.Networks, name) {
			return "there is no guard for " + name, true
		}
		for _, p := range v.Config.Network(name) {
			if why, choice := v.holdsNot(name, p); why != "" {
				return why, choice
			}
		}
	}
	for _, f := range routing.Families {
		for _, p := range v.linkNetworks(f) {
			if why, choice := v.holdsNot("", p); why != "" {
				return why, choice
			}
		}
	}
	return "", false
}

// holdsNot says where guard and fence of a prefix are missing.
func (v *View) holdsNot(name string, p netip.Prefix) (why string, choice bool) {
	if !v.guards(p) {
		for _, c := range v.Plan.Conditions {
			if c.Object == "guard/"+name || c.Object == "guard/"+p.String() {
				return c.Message, true
			}
		}
		return "the guard of " + p.String() + " is not in the kernel", false
	}
	for i := range v.Config.Tables {
		t := &v.Config.Tables[i]
		if t.ID == routing.MainID || !v.hasDefault(t.ID, routing.FamilyOf(p.Addr())) {
			continue
		}
		if t.Fence == nil {
			return "table " + t.Name + " has a default and no fence", true
		}
		if !slices.ContainsFunc(v.Kernel.Routes, func(r routing.Route) bool {
			return r.Table == t.ID && r.Metric == routing.MetricFence && r.Type.Reject() && r.Type != routing.Throw && covers(r.Dst, p)
		}) {
			return fmt.Sprintf("table %s has a default and no fence for %s", t.Name, p), false
		}
	}
	return "", false
}

func covers(wide, narrow netip.Prefix) bool {
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

func (v *View) hasDefault(id routing.TableID, f routing.Family) bool {
	return slices.ContainsFunc(v.Kernel.Routes, func(r routing.Route) bool {
		return r.Table == id && r.Dst.Bits() == 0 && r.Type == routing.Unicast && r.Family() == f
	})
}

// guards reports whether the kernel has a guard of the prefix: a route of main,
// or the pair of rules.
func (v *View) guards(p netip.Prefix) bool {
	if slices.ContainsFunc(v.Kernel.Routes, func(r routing.Route) bool {
		return r.Table == routing.MainID && r.Metric == routing.MetricGuard && r.Type == routing.Unreachable && covers(r.Dst, p)
	}) {
		return true
	}
	lookup, stop := false, false
	for i := range v.Kernel.Rules {
		r := &v.Kernel.Rules[i]
		if !r.To.IsValid() || r.From.IsValid() || r.IIF != "" || !covers(r.To, p) || routing.FamilyOf(r.To.Addr()) != r.Family {
			continue
		}
		lookup = lookup || r.Table == routing.MainID && r.SuppressPrefixLen == r.To.Bits()-1
		stop = stop || r.Action == routing.ActionUnreachable
	}
	return lookup && stop
}

// proofSources lists who sends in a family: the node with an address of its own
// and without, its pod, and its pod in the name of other networks that rules
// send to tables of ours.
func (v *View) proofSources(f routing.Family) (local, arriving []source) {
	local = []source{{what: "this node"}}
	if v.self != nil {
		if a := v.self.InternalIP(f); v.own[a] {
			local = append(local, source{what: "this node", src: a})
		}
	}
	if pod, why := v.pod(f); why == "" {
		arriving = append(arriving, pod)
	}
	for i := range v.Config.Tables {
		for _, r := range v.Config.Tables[i].Rules {
			if r.From == "" || r.From == routing.World || len(v.network(r.From, f)) == 0 {
				continue
			}
			if s, why := v.source(r.From, f); why == "" && s.iif != "" && !slices.Contains(arriving, s) {
				arriving = append(arriving, s)
			}
		}
	}
	return local, arriving
}

// strays lists the flows of one family to addresses that no route leads to.
func (v *View) strays(f routing.Family, local, arriving []source) []queue {
	var queues []queue
	add := func(sources []source, networks []netip.Prefix) {
		for _, p := range networks {
			for _, s := range sources {
				queues = append(queues, queue{proofOnly, s, []*target{{what: "no host of " + p.String(), addr: v.stray(p, s)}}})
			}
		}
	}
	var guarded, fenced []netip.Prefix
	for _, name := range v.inside() {
		guarded = append(guarded, v.network(name, f)...)
	}
	for _, p := range v.linkNetworks(f) {
		if !slices.Contains(guarded, p) {
			guarded = append(guarded, p)
		}
	}
	for i := range v.Config.Tables {
		for _, name := range v.Config.Tables[i].Fence {
			for _, p := range v.network(name, f) {
				if !slices.Contains(guarded, p) && !slices.Contains(fenced, p) {
					fenced = append(fenced, p)
				}
			}
		}
	}
	everybody := append(slices.Clone(local), arriving...)
	add(everybody, guarded)
	// A Service's address is translated before or after it is routed: only what
	// still has it in a table of ours must stop there.
	add(arriving, fenced)
	for _, t := range v.suspects(guarded) {
		for _, s := range everybody {
			queues = append(queues, queue{proofOnly, s, []*target{t}})
		}
	}
	for _, t := range v.suspects(fenced) {
		for _, s := range arriving {
			queues = append(queues, queue{proofOnly, s, []*target{t}})
		}
	}
	return append(queues, v.picked(f, guarded, local, arriving)...)
}

// picked lists the flows that rules of others pick out: a part of the pods, a
// mark, one link. What they do to all packets every other flow shows as well.
func (v *View) picked(f routing.Family, guarded []netip.Prefix, local, arriving []source) []queue {
	var queues []queue
	for i := range v.Kernel.Rules {
		r := &v.Kernel.Rules[i]
		if r.Family != f || v.Plan.Own.HasRule(r) || r.Opaque || r.L3MDev || r.Invert || r.OIF != "" || r.Priority >= mainPriority || len(queues) >= maxSuspects {
			continue
		}
		for _, s := range v.senders(r, local, arriving) {
			for _, t := range v.picks(r, f, guarded, s) {
				queues = append(queues, queue{proofOnly, s, []*target{t}})
			}
		}
	}
	return queues
}

// senders lists who of this node and its pods sends what a rule picks out.
func (v *View) senders(r *routing.Rule, local, arriving []source) []source {
	if !r.From.IsValid() && !r.To.IsValid() && r.Mark == 0 && r.IIF == "" {
		return nil
	}
	var all []source
	for _, s := range append(slices.Clone(local), arriving...) {
		s.mark = r.Mark
		if r.IIF != "" && s.iif != r.IIF {
			continue
		}
		if r.From.IsValid() && !r.From.Contains(s.src) {
			if s.iif == "" || v.self == nil || !slices.ContainsFunc(v.self.PodCIDRs, func(c netip.Prefix) bool { return covers(c, r.From) }) {
				continue
			}
			s.src = v.host(r.From) // another of this node's pods
		}
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// picks lists where a packet that a rule picks out may go inside the cluster.
func (v *View) picks(r *routing.Rule, f routing.Family, guarded []netip.Prefix, from source) []*target {
	if r.To.IsValid() {
		if !slices.ContainsFunc(guarded, func(n netip.Prefix) bool { return covers(n, r.To) }) {
			return nil
		}
		return []*target{{what: "a host of " + r.To.String(), addr: v.host(r.To)}}
	}
	var all []*target
	for _, n := range guarded {
		all = append(all, &target{what: "no host of " + n.String(), addr: v.stray(n, from)})
	}
	if peers := v.peerTargets(f); len(peers) > 0 {
		all = append(all, peers[0])
	}
	return all
}

// maxSuspects bounds the routes of others that are looked at each.
const maxSuspects = 32

// suspects lists an address of every route that leads into one of the networks
// by a router, whether anybody is there or not.
func (v *View) suspects(networks []netip.Prefix) []*target {
	var all []*target
	for i := range v.Kernel.Routes {
		r := &v.Kernel.Routes[i]
		if v.nodes[r.Via] != "" && !v.gateways[hopOf(r.Via, r.Link)] {
			continue // as nearly all
		}
		if r.Type != routing.Unicast || len(all) == maxSuspects || !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return covers(n, r.Dst) }) {
			continue
		}
		a := v.host(r.Dst)
		answer := routing.Answer{Outcome: routing.OutcomeForward, Link: r.Link, Via: r.Via}
		if v.router(routing.Flow{Dst: a}, answer, &fib.Result{Action: fib.Forward, Route: *r}) != "" {
			all = append(all, &target{what: "a host of " + r.Dst.String(), addr: a})
		}
	}
	return all
}
