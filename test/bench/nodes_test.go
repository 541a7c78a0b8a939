package bench

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// BenchmarkNodes5000 starts netclassd on a nodes file of 5,000 nodes, whose
// routes it takes from there, and then moves one node to another address.
func BenchmarkNodes5000(b *testing.B) {
	const count, moved = 5000, 1234
	separate(b)
	w := newWorld(b, count, false)
	m := newMonitor(b, w.NS())
	for b.Loop() {
		paths := classPaths(count)
		arrived := m.await(paths)
		begun := time.Now()
		d, err := w.StartNetclassd(lab.NetclassdOptions{Config: config(routing.LearnNodes), Nodes: nodesFile(count)})
		if err != nil {
			b.Fatal(err)
		}
		took := wait(b, m, arrived, d.Process).Sub(begun)
		used := cpu(d.PID())
		inform(b, "5,000 nodes from start to the kernel", "s", took.Seconds(),
			fmt.Sprintf("20,000 routes; processor %.2f s", used.Seconds()))
		before := waitSynced(b, d)
		w.verify(b, paths, nil)
		pause(b, settling)
		daemon, _ := daemonPSS(b, d)
		inform(b, "memory with 5,000 nodes", "MB", daemon, "")

		text := nodesFile(count, moved)
		w.move(b, m, d, before.GetPass().GetApplied(), moved, "one node of 5,000 moved", func() error { return d.WriteNodes(text) })
		pause(b, settling)
		daemon, _ = daemonPSS(b, d)
		inform(b, "memory after the nodes changed", "MB", daemon, "")
		if err := d.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// move has one node move and counts what that changes in the kernel. Each class
// path is one change; nothing else may be written.
func (w *world) move(b *testing.B, m *monitor, d *lab.Netclassd, applied uint64, moved int, what string, change func() error) {
	b.Helper()
	want := make(map[netip.Prefix]netip.Addr)
	for _, f := range routing.Families {
		want[pods(moved, f)] = peerNet(lab.PodNet, moved+shift, f).Addr()
	}
	arrived := m.await(want)
	begun := time.Now()
	if err := change(); err != nil {
		b.Fatal(err)
	}
	took := wait(b, m, arrived, d.Process).Sub(begun)
	pause(b, time.Second) // for what should not come
	pass := waitSynced(b, d).GetPass()
	others := 0
	events := m.heard()
	for _, e := range events {
		if _, ok := want[e.dst]; !ok {
			others++
		}
	}
	atMost(b, what, "s", took.Seconds(), 1, "until the kernel has it")
	atMost(b, what+": changes", "ops", float64(pass.GetApplied()-applied), 2,
		fmt.Sprintf("%d route events, %d failed", len(events), pass.GetFailed()))
	atMost(b, what+": changes of others", "ops", float64(others), 0, "by the kernel's events")
}
