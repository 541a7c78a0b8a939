package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// twin gives a route of ours in the kernel another next hop beside its own.
func (w *world) twin(dst string, metric uint32) {
	for _, r := range w.Kernel.Routes {
		if r.Dst == netip.MustParsePrefix(dst) && r.Metric == metric && r.Table == 47 {
			r.Via = r.Via.Next()
			w.addRoutes(r)
			return
		}
	}
}

// IPv6 lets a second route of ours stand beside the one we want, and uses both.
func TestTwinIsDeleted(t *testing.T) {
	w := seed()
	w.settle()
	w.twin("fd00:10:244:2::/64", routing.MetricPath)
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		drop peers: delete route fd00:10:244:2::/64 via fd00:48::3 dev pod0 table 47 metric 10`)
	w.Inventory.Synced = false
	if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
		t.Errorf("deleted while held:\n%s", opsText(ops))
	}
}

// While deletions are held things are still added and replaced.
func TestHoldAddsAndReplaces(t *testing.T) {
	w := seed()
	w.settle()
	w.removeNode("k8s-1")
	w.removeNode("k8s-3")
	w.Kernel.Routes = slices.DeleteFunc(w.Kernel.Routes, func(r routing.Route) bool { return r.Metric == routing.MetricFence && r.Family() == routing.IPv6 })
	w.node("k8s-2").InternalIPs[0] = addr("10.46.0.22")
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		fence: add route unreachable fd00:10:96::/112 table 47 metric 4000
		fence: add route unreachable fd00:10:244::/48 table 47 metric 4000
		fence: add route unreachable fd00:40::/64 table 47 metric 4000
		fence: add route unreachable fd00:46::/64 table 47 metric 4000
		fence: add route unreachable fd00:47::/64 table 47 metric 4000
		fence: add route unreachable fd00:47:64::/112 table 47 metric 4000
		fence: add route unreachable fd00:48::/64 table 47 metric 4000
		peers: replace route 10.244.2.0/24 via 10.46.0.22 dev node0 table 47 metric 2000`)
}

// What an earlier configuration left, by the ledger, goes; what is another's in
// the same table, or ours by number in a table never used, stays.
func TestLedgerAndOwnership(t *testing.T) {
	w := seed()
	w.settle()
	old := routing.Route{Table: 99, Dst: netip.MustParsePrefix("10.1.0.0/16"), Metric: 10, Via: addr("10.48.0.9"), Link: "pod0", Protocol: 148}
	foreign := old
	foreign.Protocol = routing.ProtocolBIRD
	foreign.Metric = 32
	elsewhere := old
	elsewhere.Table = 98
	w.addRoutes(old, foreign, elsewhere)
	oldRule := routing.Rule{Family: routing.IPv4, Priority: 900, Table: 99, Protocol: 148, SuppressPrefixLen: routing.NoSuppress}
	foreignRule := oldRule
	foreignRule.Protocol = routing.ProtocolStatic
	otherPriority := oldRule
	otherPriority.Priority = 901
	w.Kernel.Rules = append(w.Kernel.Rules, oldRule, foreignRule, otherPriority)
	w.Ledger.Tables = append(w.Ledger.Tables, 99)
	w.Ledger.Priorities = append(w.Ledger.Priorities, 900)
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		drop rules: delete rule 900: from all lookup 99
		drop peers: delete route 10.1.0.0/16 via 10.48.0.9 dev pod0 table 99 metric 10`)
}

// Another protocol number in the configuration: routes are taken over in place,
// rules stand twice until the old one goes.
func TestProtocolChanges(t *testing.T) {
	w := seed()
	w.only(routing.IPv4)
	w.settle()
	w.Config.Daemon.Protocol = 149
	verbs := map[string]int{}
	ops := plan.Diff(w.make(), w.Kernel)
	for _, op := range ops {
		what := op.Verb.String() + " route"
		if op.IsRule() {
			what = op.Verb.String() + " rule"
		}
		verbs[what]++
	}
	if want := len(w.make().Routes); verbs["replace route"] != want || verbs["add route"]+verbs["delete route"] != 0 {
		t.Errorf("%v, want %d routes replaced", verbs, want)
	}
	if want := len(w.make().Rules); verbs["add rule"] != want || verbs["delete rule"] != want {
		t.Errorf("%v, want %d rules added and as many deleted", verbs, want)
	}
}

// A rule of ours that is not wanted any more goes, though nothing but the
// configuration says that its priority is ours.
func TestUnwantedRuleGoes(t *testing.T) {
	w := seed()
	w.settle()
	w.Ledger = &routing.Ledger{}
	w.link("mgmt0").Addrs[0].Prefix = netip.MustParsePrefix("10.244.99.1/24") // now inside pods
	wantText(t, "ops", opsText(slices.DeleteFunc(plan.Diff(w.make(), w.Kernel), func(o routing.Op) bool { return !o.IsRule() })), `
		drop rules: delete rule 1001: from 10.244.0.0/16 lookup 47`)
}

// A default whose fence cannot be whole goes even while nothing else may.
func TestUnsafeDefaultGoesWhileHeld(t *testing.T) {
	w := seed()
	w.settle()
	w.Inventory.Synced = false
	for i := range w.Kernel.Routes {
		if r := &w.Kernel.Routes[i]; r.Dst == netip.MustParsePrefix("10.96.0.0/16") {
			r.Protocol = routing.ProtocolBIRD
		}
	}
	wantText(t, "a foreign route in the fence's place", opsText(plan.Diff(w.make(), w.Kernel)),
		"drop default: delete route default via 10.47.0.254 dev ingress0 table 47 metric 10")
}

// So does the one in a table of an earlier configuration, when its fence has
// lost something.
func TestUnfencedDefaultOfOldTableGoesWhileHeld(t *testing.T) {
	w := seed()
	w.settle()
	w.Inventory.Synced = false
	w.Config.Tables[0].ID = 48
	for _, op := range plan.Diff(w.make(), w.Kernel) {
		w.Kernel = applied(w.Kernel, op)
	}
	w.Kernel.Routes = slices.DeleteFunc(w.Kernel.Routes, func(r routing.Route) bool {
		return r.Table == 47 && r.Dst == netip.MustParsePrefix("fd00:10:244::/48")
	})
	wantText(t, "without a fence in the old table", opsText(plan.Diff(w.make(), w.Kernel)),
		"drop default: delete route default via fd00:47::fe dev ingress0 table 47 metric 10")
}

// And half a guard of an earlier configuration, which would cut off what main
// delivers.
func TestHalfGuardGoesWhileHeld(t *testing.T) {
	w := seed()
	w.Config.Guard.AsRules = true
	w.settle()
	w.Config.Guard.AsRules = false
	w.Inventory.Synced = false
	for _, op := range plan.Diff(w.make(), w.Kernel) {
		w.Kernel = applied(w.Kernel, op)
	}
	w.Kernel.Rules = slices.DeleteFunc(w.Kernel.Rules, func(r routing.Rule) bool {
		return r.To == netip.MustParsePrefix("10.244.0.0/16") && r.SuppressPrefixLen != routing.NoSuppress
	})
	wantText(t, "without the first half", opsText(plan.Diff(w.make(), w.Kernel)),
		"drop guard: delete rule 32763: from all to 10.244.0.0/16 unreachable")
}
