package plan_test

import (
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// TestWaitingTables: what waits in a table is said once, by the class whose traffic
// waits for it where there is one.
func TestWaitingTables(t *testing.T) {
	for _, test := range []struct {
		name      string
		bend      func(*world)
		table     string
		condition string // "": another says it
		class     string // of world-pod
	}{
		{"all there", func(*world) {}, "", "", ""},
		{
			"the default's link mistyped", func(w *world) { w.Config.Tables[0].Routes.Default.Link = "ingres0" },
			"ipv4 default, ipv6 default: link ingres0 does not exist", "ipv4 default, ipv6 default: link ingres0 does not exist",
			"no default over ingress0 in table pods: its default leaves by ingres0",
		},
		{
			"own link mistyped", func(w *world) { w.Config.Tables[0].Routes.Own.Link = "cilium_hots" },
			"own 10.244.1.0/24, own fd00:10:244:1::/64: link cilium_hots does not exist",
			"own 10.244.1.0/24, own fd00:10:244:1::/64: link cilium_hots does not exist", "",
		},
		{
			"no annotation", func(w *world) { delete(w.node("k8s-1").Annotations, "net.renner.uno/egress-gw-v4") },
			"ipv4 default: node k8s-1 has no annotation net.renner.uno/egress-gw-v4", "",
			"ipv4 default: node k8s-1 has no annotation net.renner.uno/egress-gw-v4",
		},
		{
			"a class link gone", func(w *world) { w.removeLink("ingress0") },
			"connected ingress0, ipv4 default, ipv6 default: link ingress0 does not exist", "", "link ingress0 does not exist",
		},
		{
			"this node unknown", func(w *world) { w.removeNode("k8s-1") }, "this node is not in the inventory; and 4 more", "", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := seed()
			test.bend(w)
			p := w.make()
			if st := p.Tables[0]; !strings.Contains(st.Reason, test.table) || (st.Health == routing.Ready) != (test.table == "") {
				t.Errorf("table is %s: %s, want %q", st.Health, st.Reason, test.table)
			}
			at := slices.IndexFunc(p.Conditions, func(c routing.Condition) bool { return c.Object == "table/pods" && c.Reason == "Waiting" })
			got := ""
			if at >= 0 {
				got = p.Conditions[at].Message
			}
			if got != test.condition {
				t.Errorf("condition %q, want %q", got, test.condition)
			}
			if c := class(t, p, "world-pod"); test.class != "" && (c.Health != routing.Waiting || c.Reason != test.class) {
				t.Errorf("class is %s: %s, want %q", c.Health, c.Reason, test.class)
			}
		})
	}
}
