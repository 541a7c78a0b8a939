package bench

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// patience bounds the wait for anything to converge.
const patience = 60 * time.Second

// run is one start of a daemon among the peers.
type run struct {
	took time.Duration // from its start until the last class path was in the kernel
	cpu  time.Duration // until then
	pss  [2]float64    // when settled: the daemon, and its speaker
}

// BenchmarkMesh100 starts netclassd and BIRD in turn among 100 passive peers, and
// compares when the last of their 200 class paths is in the kernel.
func BenchmarkMesh100(b *testing.B) {
	ours, bird := mesh(b, 100, 5)
	beside := fmt.Sprintf("BIRD %.2f s; processor %.2f s, BIRD %.2f s", bird.took.Seconds(), ours.cpu.Seconds(), bird.cpu.Seconds())
	inform(b, "mesh of 100 peers converged", "s", ours.took.Seconds(), beside)
	atMost(b, "mesh of 100 peers against BIRD", "times", ours.took.Seconds()/bird.took.Seconds(), 1, beside)
}

// BenchmarkMesh500 is the same for 500 peers, and looks at memory.
func BenchmarkMesh500(b *testing.B) {
	separate(b)
	ours, bird := mesh(b, 500, 3)
	beside := fmt.Sprintf("BIRD %.2f s; processor %.2f s, BIRD %.2f s", bird.took.Seconds(), ours.cpu.Seconds(), bird.cpu.Seconds())
	inform(b, "mesh of 500 peers converged", "s", ours.took.Seconds(), beside)
	inform(b, "mesh of 500 peers against BIRD", "times", ours.took.Seconds()/bird.took.Seconds(), beside)
	atMost(b, "memory with 500 peers", "MB", ours.pss[0]+ours.pss[1], 90,
		fmt.Sprintf("daemon %.1f, speaker %.1f; BIRD %.1f", ours.pss[0], ours.pss[1], bird.pss[0]))
}

// mesh returns the run of the median time of each.
func mesh(b *testing.B, count, rounds int) (ours, bird run) {
	need.Program(b, "bird")
	w := newWorld(b, count+1, true)
	peers, err := Listen(w.crowd, passive(count+1))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = peers.Close() })
	m := newMonitor(b, w.NS())
	var a, z []run
	for b.Loop() {
		for round := range rounds {
			last := round == rounds-1
			z = append(z, w.bird(b, m, peers, count+1, last))
			a = append(a, w.netclassd(b, m, peers, count+1, last))
		}
	}
	b.Logf("netclassd %v, BIRD %v", times(a), times(z))
	return middle(a), middle(z)
}

func times(runs []run) (t []time.Duration) {
	for _, r := range runs {
		t = append(t, r.took.Round(time.Millisecond))
	}
	return t
}

// middle returns the medians of the times, and the memory of the last run.
func middle(runs []run) run {
	var took, used []float64
	for _, r := range runs {
		took, used = append(took, r.took.Seconds()), append(used, r.cpu.Seconds())
	}
	return run{
		took: time.Duration(median(took) * float64(time.Second)),
		cpu:  time.Duration(median(used) * float64(time.Second)),
		pss:  runs[len(runs)-1].pss,
	}
}

// settling is how long a daemon has until its memory is looked at.
const settling = 15 * time.Second

func (w *world) netclassd(b *testing.B, m *monitor, peers *Peers, count int, settle bool) run {
	b.Helper()
	w.clear(b)
	_ = os.RemoveAll(w.File("netclassd"))
	paths := classPaths(count)
	arrived := m.await(paths)
	begun := time.Now()
	d, err := w.StartNetclassd(lab.NetclassdOptions{Config: config(routing.LearnBGP), Nodes: nodesFile(count)})
	if err != nil {
		b.Fatal(err)
	}
	r := run{took: wait(b, m, arrived, d.Process).Sub(begun)}
	r.cpu = cpu(d.PID())
	if pid, err := d.Speaker(); err == nil {
		r.cpu += cpu(pid)
	}
	w.verify(b, paths, peers)
	if settle {
		time.Sleep(settling)
		r.pss[0], r.pss[1] = daemonPSS(b, d)
		w.verify(b, paths, peers)
	}
	if err := d.Stop(); err != nil {
		b.Fatal(err)
	}
	return r
}

func (w *world) bird(b *testing.B, m *monitor, peers *Peers, count int, settle bool) run {
	b.Helper()
	w.clear(b)
	paths := classPaths(count)
	arrived := m.await(paths)
	begun := time.Now()
	d, err := w.StartBIRD(birdConfig(count))
	if err != nil {
		b.Fatal(err)
	}
	r := run{took: wait(b, m, arrived, d.Process).Sub(begun), cpu: cpu(d.PID())}
	w.verify(b, paths, peers)
	if settle {
		time.Sleep(settling)
		r.pss[0] = pss(b, d.PID())
	}
	if err := d.Stop(); err != nil {
		b.Fatal(err)
	}
	return r
}

// wait returns the time at which the last route came.
func wait(b *testing.B, m *monitor, arrived <-chan time.Time, p *lab.Process) time.Time {
	b.Helper()
	select {
	case at := <-arrived:
		return at
	case <-p.Done():
		b.Fatalf("%s has ended:\n%s", p.Name, p.LogTail(20))
	case <-time.After(patience):
		b.Fatalf("%s: %d routes are missing after %v:\n%s", p.Name, m.missed(), patience, p.LogTail(20))
	}
	return time.Time{}
}

// clear makes sure that the daemon before has left no route.
func (w *world) clear(b *testing.B) {
	b.Helper()
	if routes := w.table(b); len(routes) > 0 {
		b.Fatalf("table %d still has %d routes", table, len(routes))
	}
}

// verify looks at the table itself: each class path is there, and every peer has
// both sessions.
func (w *world) verify(b *testing.B, paths map[netip.Prefix]netip.Addr, peers *Peers) {
	b.Helper()
	have := w.table(b)
	for dst, via := range paths {
		if have[dst] != via {
			b.Fatalf("table %d: %s via %s, want via %s", table, dst, have[dst], via)
		}
	}
	if peers != nil && peers.Up() != len(paths) {
		b.Fatalf("%d sessions are up, want %d", peers.Up(), len(paths))
	}
}

// table returns the next hops by pod0 in the table.
func (w *world) table(b *testing.B) map[netip.Prefix]netip.Addr {
	b.Helper()
	link, err := w.Netlink().LinkByName(lab.PodNet)
	if err != nil {
		b.Fatal(err)
	}
	have := make(map[netip.Prefix]netip.Addr)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := w.Netlink().RouteListFiltered(family, &netlink.Route{Table: table, LinkIndex: link.Attrs().Index}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range routes {
			addr, _ := netip.AddrFromSlice(r.Dst.IP)
			bits, _ := r.Dst.Mask.Size()
			via, _ := netip.AddrFromSlice(r.Gw)
			have[netip.PrefixFrom(addr.Unmap(), bits)] = via.Unmap()
		}
	}
	return have
}

// birdConfig is what BIRD needs to do the same: the own pod CIDRs announced to
// each peer, the peer's own accepted from it, all of it in the same table with
// the same timers. A second is the least that BIRD waits before it dials.
func birdConfig(count int) string {
	var s strings.Builder
	fmt.Fprintf(&s, `log stderr { warning, error, fatal };
router id %s;
protocol device {}
protocol kernel kernel4 { ipv4 { import none; export all; }; kernel table %d; scan time 10; }
protocol kernel kernel6 { ipv6 { import none; export all; }; kernel table %d; scan time 10; }
protocol static own4 { ipv4; route %s via "cilium_host"; }
protocol static own6 { ipv6; route %s via "cilium_host"; }
`, peerNet(lab.PodNet, 1, routing.IPv4).Addr(), table, table, pods(1, routing.IPv4), pods(1, routing.IPv6))
	for n := 2; n <= count; n++ {
		for _, f := range routing.Families {
			fmt.Fprintf(&s, `protocol bgp k8s_%d_%s {
	local %s as %d;
	neighbor %s as %d;
	direct;
	hold time 9; keepalive time 3; connect retry time 2; connect delay time 1; error wait time 1, 5;
	%s { import where net ~ [ %s ]; export where proto = "own%d"; next hop self; };
}
`, n, f, peerNet(lab.PodNet, 1, f).Addr(), asn, peerNet(lab.PodNet, n, f).Addr(), asn, f, pods(n, f), f)
		}
	}
	return s.String()
}
