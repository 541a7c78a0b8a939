package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// TestRulesWaitForNodes: no rule leads packets into a table that has only the fence
// in it, because the nodes are not known yet; one that is there already stays.
func TestRulesWaitForNodes(t *testing.T) {
	for name, unknown := range map[string]func(*world){
		"not read yet":           func(w *world) { w.Inventory = &routing.Inventory{Stale: "not read yet"} },
		"this node is not there": func(w *world) { w.removeNode("k8s-1") },
	} {
		t.Run(name, func(t *testing.T) {
			selects := func(p *routing.Plan) int {
				return len(slices.DeleteFunc(slices.Clone(p.Rules), func(r routing.Rule) bool { return r.Action != routing.ActionLookup }))
			}
			w := seed()
			w.Peerings, w.Speaking = nil, nil
			unknown(w)
			p := w.make()
			if n := selects(p); n > 0 {
				t.Errorf("%d rules on an empty kernel", n)
			}
			if st := p.Tables[0]; st.Health != routing.Waiting || !strings.Contains(strings.Join(st.Waiting, "\n"), "rule 1001: from 10.244.0.0/16 lookup 47: "+p.Hold) {
				t.Errorf("table is %s, waits for %v", st.Health, st.Waiting)
			}
			for _, name := range []string{"pod-pod", "world-pod"} {
				if c := class(t, p, name); c.Health != routing.Waiting || c.Reason != "the rule into table pods waits: "+p.Hold {
					t.Errorf("%s is %s: %s", name, c.Health, c.Reason)
				}
			}
			if c := class(t, p, "node-node"); c.Health != routing.Ready {
				t.Errorf("node-node is %s: %s", c.Health, c.Reason)
			}

			w = seed()
			want := selects(w.settle())
			unknown(w)
			if n := selects(w.make()); n != want || n == 0 {
				t.Errorf("%d rules where %d were in", n, want)
			}
		})
	}
}

// TestOldRoutesGoBeforeRulesCome: what an older configuration left in a table does
// not stop the first packets that a rule leads there.
func TestOldRoutesGoBeforeRulesCome(t *testing.T) {
	old := []routing.Route{
		{Table: 47, Dst: prefixes("10.99.0.0/16")[0], Metric: routing.MetricFence, Type: routing.Unreachable, Protocol: routing.ProtocolNetclass},
		{Table: 47, Dst: routing.IPv4.Default(), Metric: 77, Via: addr("10.47.0.253"), Link: "ingress0", Protocol: routing.ProtocolNetclass},
	}
	place := func(w *world, what string) (at routing.Stage) {
		for _, op := range planOps(w.make(), w) {
			if strings.Contains(op.String(), what) {
				return op.Stage
			}
		}
		t.Errorf("no op %q", what)
		return 0
	}
	w := seed()
	w.addRoutes(old...)
	rule := place(w, "add rule 1001")
	if fence, def := place(w, "delete route unreachable 10.99.0.0/16"), place(w, "delete route default via 10.47.0.253"); def >= fence || fence >= rule {
		t.Errorf("the default goes in %q, the fence in %q, the rule comes in %q", def, fence, rule)
	}
	// Where packets come along already, what is new is in first.
	w.settle()
	w.addRoutes(old...)
	if at := place(w, "delete route unreachable 10.99.0.0/16"); at != routing.StageDropFence {
		t.Errorf("the fence goes in %q", at)
	}
}

// TestRulesWaitForOwn: no rule leads packets of this node's pods into a table where
// nothing leads back to them.
func TestRulesWaitForOwn(t *testing.T) {
	for name, bend := range map[string]func(*world){
		"no pod CIDR": func(w *world) { w.node("k8s-1").PodCIDRs = nil },
		"another's pod CIDRs": func(w *world) {
			w.node("k8s-1").PodCIDRs = w.node("k8s-2").PodCIDRs
			w.Ledger.Holders = map[netip.Prefix]string{prefixes("10.244.2.0/24")[0]: "k8s-2", prefixes("fd00:10:244:2::/64")[0]: "k8s-2"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := seed()
			bend(w)
			for _, r := range w.make().Rules {
				if r.Action == routing.ActionLookup {
					t.Errorf("rule %q", r)
				}
			}
		})
	}
}
