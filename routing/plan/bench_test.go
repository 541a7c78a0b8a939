package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// large is the example cluster with n nodes of two families each.
func large(n int) *world {
	w := seed()
	nodes := make([]routing.Node, 0, n)
	for i := range n {
		hi, lo := byte(i/250), byte(i%250+1)
		v4 := func(b byte) netip.Addr { return netip.AddrFrom4([4]byte{10, b, hi, lo}) }
		v6 := func(b byte) netip.Addr {
			return netip.AddrFrom16([16]byte{0: 0xfd, 7: b, 14: hi, 15: lo})
		}
		pods6 := [16]byte{0: 0xfd, 3: 0x10, 4: 0x02, 5: 0x44, 6: hi, 7: lo}
		nodes = append(nodes, routing.Node{
			Name: fmt.Sprintf("node-%05d", i),
			PodCIDRs: []netip.Prefix{
				netip.PrefixFrom(netip.AddrFrom4([4]byte{11, hi, lo, 0}), 24),
				netip.PrefixFrom(netip.AddrFrom16(pods6), 64),
			},
			InternalIPs: []netip.Addr{v4(46), v6(46)},
			Annotations: map[string]string{
				"net.renner.uno/pod0-v4":      v4(48).String(),
				"net.renner.uno/pod0-v6":      v6(48).String(),
				"net.renner.uno/egress-gw-v4": "10.47.255.254",
				"net.renner.uno/egress-gw-v6": "fd00:0:0:2f::ff",
			},
		})
	}
	w.Node = nodes[0].Name
	w.Inventory.Nodes = nodes
	w.Config.Networks = []routing.Network{
		{Name: "pods", Prefixes: prefixes("11.0.0.0/8", "fd00:10:244::/40")},
		{Name: "services", Prefixes: prefixes("10.96.0.0/16", "fd00:10:96::/112")},
		{Name: "nodes", Prefixes: prefixes("10.46.0.0/16", "fd00:0:0:2e::/64")},
		{Name: "loadBalancers", Prefixes: prefixes("10.97.64.0/24", "fd00:47:64::/112")},
	}
	for i, b := range map[int]int{1: 40, 2: 46, 3: 47, 4: 48} {
		name := w.Kernel.Links[i].Name
		w.Kernel.Links[i] = upLink(name, fmt.Sprintf("10.%d.0.1/16", b), fmt.Sprintf("fd00:0:0:%x::1/64", b))
	}
	w.converge()
	return w
}

// cni adds what a CNI has in main: a foreign route to every node.
func (w *world) cni() {
	for i := range w.Inventory.Nodes[1:] {
		n := &w.Inventory.Nodes[i+1]
		for j, dst := range n.PodCIDRs {
			w.addRoutes(routing.Route{Table: routing.MainID, Dst: dst, Metric: uint32(j) * 1024, Via: n.InternalIPs[j], Link: "node0", Protocol: routing.ProtocolStatic})
		}
	}
}

// installed makes the kernel what the plan wants at one blow.
func (w *world) installed() {
	p := w.make()
	w.Kernel.Routes = append(w.Kernel.Routes, p.Routes...)
	w.Kernel.Rules = append(w.Kernel.Rules, p.Rules...)
	w.remember(p)
}

// A pass over 5,000 nodes of two families, in which nothing has changed, and the
// first one, in which everything has.
func BenchmarkMakeDiff5000(b *testing.B) {
	b.Run("steady", func(b *testing.B) {
		w := large(5000)
		w.cni()
		w.installed()
		b.ReportAllocs()
		for b.Loop() {
			if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
				b.Fatalf("%d ops", len(ops))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/pass")
	})
	b.Run("initial", func(b *testing.B) {
		w := large(5000)
		w.cni()
		b.ReportAllocs()
		for b.Loop() {
			if ops := plan.Diff(w.make(), w.Kernel); len(ops) < 20000 {
				b.Fatalf("%d ops", len(ops))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/pass")
	})
	b.Run("restart", func(b *testing.B) {
		w := large(5000)
		w.cni()
		w.installed()
		w.restarted()
		b.ReportAllocs()
		for b.Loop() {
			if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
				b.Fatalf("%d ops", len(ops))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/pass")
	})
}

// One changed node of 5,000 costs ops for that node only.
func TestOneChangedNode(t *testing.T) {
	w := large(5000)
	w.installed()
	if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
		t.Fatalf("%d ops in steady state", len(ops))
	}
	n := &w.Inventory.Nodes[2500]
	n.InternalIPs[0] = addr("10.46.200.200")
	n.PodCIDRs[1] = netip.MustParsePrefix("fd00:10:2ff::/64")
	w.converge()
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		peers: replace route 11.10.1.0/24 via 10.46.200.200 dev node0 table 47 metric 2000
		peers: add route fd00:10:2ff::/64 via fd00:0:0:30::a01 dev pod0 table 47 metric 10
		peers: add route fd00:10:2ff::/64 via fd00:0:0:2e::a01 dev node0 table 47 metric 2000
		drop peers: delete route fd00:10:244:a01::/64 via fd00:0:0:30::a01 dev pod0 table 47 metric 10
		drop peers: delete route fd00:10:244:a01::/64 via fd00:0:0:2e::a01 dev node0 table 47 metric 2000`)
}
