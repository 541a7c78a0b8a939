package promise_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/routing"
	"netclass.dev/routing/promise"
)

// importing is a cluster whose router on ingress0 tells of some of the network corp,
// with traffic of pods to it in a class of the named link; empty: in none.
func importing(t *testing.T, link string) *world {
	t.Helper()
	replace := []string{
		"  loadBalancers: [10.47.64.0/24, \"fd00:47:64::/112\"]\n", "  loadBalancers: [10.47.64.0/24, \"fd00:47:64::/112\"]\n  corp: [10.50.0.0/16]\n",
		"      advertise: {networks: [loadBalancers]}", "      advertise: {networks: [loadBalancers]}\n      import: [{networks: [corp], table: pods}]",
	}
	switch link {
	case "ingress0":
		replace = append(replace, "[{from: pods, to: world},", "[{from: pods, to: world}, {from: pods, to: corp},")
	case "pod0":
		replace = append(replace, "[{from: pods, to: pods}]", "[{from: pods, to: pods}, {from: pods, to: corp}]")
	}
	w := cluster(t, 3, replace...)
	w.imports = []netip.Prefix{net("10.50.1.0/24")}
	w.converge(true)
	return w
}

// TestImportsAreBehindTheRouter: what a router tells of may go to it, by the link of
// its class if it has one.
func TestImportsAreBehindTheRouter(t *testing.T) {
	t.Parallel()
	const elsewhere = "pod of k8s-1 (10.244.1.6) to an address of corp (10.50.1.6) "
	for _, c := range []struct {
		name, link string
		bend       func(w *world)
		verify     string
		explain    string // of 10.50.1.1 from a pod
	}{
		{"without a class", "", nil, "PROVEN", "OK : no class promises anything about it"},
		{"by its class's link", "ingress0", nil, "PROVEN", "OK world-pod: leaves by ingress0, the link of world-pod"},
		{"by another link than its class's", "pod0", nil,
			"pod-pod pods->corp ipv4 VIOLATED: " + elsewhere + "leaves by ingress0 via 10.47.0.254, where a router tells of 10.50.1.0/24, not pod0 (rule 1001: from 10.244.0.0/16 lookup 47)\nPROVEN",
			"WRONG LINK pod-pod: leaves by ingress0 via 10.47.0.254, where a router tells of 10.50.1.0/24, not pod0 (rule 1001: from 10.244.0.0/16 lookup 47), failed"},
		{"led elsewhere", "ingress0", func(w *world) {
			w.route(47, "10.50.0.0/16", "10.40.0.254", "mgmt0")
			w.route(47, "10.50.1.0/24", "10.40.0.254", "mgmt0")
		},
			"world-pod pods->corp ipv4 VIOLATED: " + elsewhere + "leaves by mgmt0 via 10.40.0.254, not ingress0 (rule 1001: from 10.244.0.0/16 lookup 47)\nPROVEN",
			"WRONG LINK world-pod: leaves by mgmt0 via 10.40.0.254, not ingress0 (rule 1001: from 10.244.0.0/16 lookup 47), failed"},
		{"drained", "ingress0", func(w *world) {
			w.draining = routing.Draining{Step: routing.DrainPaths, Classes: []string{"world-pod"}}
			w.converge(true)
		},
			`world-pod pods->world ipv4 SHARED: pod of k8s-1 (10.244.1.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254: a drain of this node has taken it off ingress0
world-pod pods->world ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe: a drain of this node has taken it off ingress0
world-pod pods->corp ipv4 SHARED: pod of k8s-1 (10.244.1.6) to an address of corp (10.50.0.6) leaves by mgmt0 via 10.40.0.254: a drain of this node has taken it off ingress0
world-pod loadBalancers->world ipv4 SHARED: an address of loadBalancers (10.47.64.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254: a drain of this node has taken it off ingress0
world-pod loadBalancers->world ipv6 SHARED: an address of loadBalancers (fd00:47:64::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe: a drain of this node has taken it off ingress0
PROVEN`,
			"SHARED world-pod: leaves by mgmt0 via 10.40.0.254: a drain of this node has taken it off ingress0"},
		{"not told of", "ingress0", func(w *world) { w.imports = nil; w.converge(true) }, "PROVEN", "OK world-pod: leaves by ingress0, the link of world-pod"},
		{"stopped", "ingress0", func(w *world) { w.down("ingress0"); w.down("mgmt0"); w.imports = nil; w.converge(true) }, "", "UNREACHABLE world-pod: no route: link ingress0 is down, failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := importing(t, c.link)
			if c.bend != nil {
				c.bend(w)
			}
			found, _ := w.verify(promise.Round{})
			if diff := cmp.Diff(c.verify, strings.TrimSpace(tell(found))); diff != "" && c.verify != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			list, err := w.explain(routing.Question{Dst: "10.50.1.1", Src: "pod"})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s: %s", list[0].Verdict, list[0].Class, list[0].Reason)
			if list[0].Failed {
				got += ", failed"
			}
			if got != c.explain {
				t.Errorf("\n got %s\nwant %s", got, c.explain)
			}
		})
	}
}

// TestImportsSend: packets from what a router tells of come in where that is, and
// nothing is promised of them. What is the cluster's stays so, in whatever network.
func TestImportsSend(t *testing.T) {
	t.Parallel()
	w := importing(t, "ingress0")
	list, err := w.explain(routing.Question{Dst: "10.244.1.9", Src: "10.50.1.7"})
	if err != nil || list[0].Flow.IIF != "ingress0" || list[0].Src != "an address of corp" {
		t.Errorf("%+v, %v", list, err)
	}
	c := &w.config.Classes[slices.IndexFunc(w.config.Classes, func(c routing.Class) bool { return c.Name == "world-pod" })]
	c.Traffic = append(c.Traffic, routing.Traffic{From: "corp", To: "pods"})
	found, _ := w.verify(promise.Round{})
	if want := "world-pod corp->pods ipv4 WAITING: by which link corp's packets come in is decided outside\nPROVEN\n"; tell(found) != want {
		t.Errorf("got %s\nwant %s", tell(found), want)
	}
	// A node with an address in it is none that the router may have.
	w = importing(t, "ingress0")
	w.nodes.Nodes[1].InternalIPs = append(w.nodes.Nodes[1].InternalIPs, ip("10.50.1.1"))
	if list, err = w.explain(routing.Question{Dst: "10.50.1.1", Src: "pod"}); err != nil || list[0].Verdict != routing.VerdictWrongLink {
		t.Errorf("%+v, %v", list, err)
	}
}
