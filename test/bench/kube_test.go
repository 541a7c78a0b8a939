package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
)

// BenchmarkKubernetes5000 starts netclassd on 5,000 Nodes of a real API server
// and, in turn, on a nodes file of the same nodes. Then one node moves, and all
// of them report as kubelets do all the time.
func BenchmarkKubernetes5000(b *testing.B) {
	const count, moved, runs = 5000, 1234, 3
	separate(b)
	api := kubeapi.Start(b)
	crowd := newKubelets(b, api)
	begun := time.Now()
	crowd.each(count, crowd.create)
	inform(b, "5,000 Nodes made in the API server", "s", time.Since(begun).Seconds(), "")
	w := newWorld(b, count, false)
	api.Forward(w.NS())
	m := newMonitor(b, w.NS())
	ofFile := lab.NetclassdOptions{Config: config(routing.LearnNodes), Nodes: nodesFile(count)}
	ofAPI := lab.NetclassdOptions{Config: strings.Replace(ofFile.Config, "nodesFile: nodes.yaml",
		fmt.Sprintf("kubernetes: {kubeconfig: %q}", api.Kubeconfig(b.TempDir(), kubeapi.Admin)), 1)}

	for b.Loop() {
		var file, kube []start
		for i := range runs {
			file = append(file, w.start(b, m, ofFile, count, i == runs-1))
			if i < runs-1 {
				w.end(b, file[i].daemon)
			}
		}
		fileMemory, _ := daemonPSS(b, file[runs-1].daemon)
		filePeak := peak(b, file[runs-1].daemon.PID())
		w.end(b, file[runs-1].daemon)
		for i := range runs {
			kube = append(kube, w.start(b, m, ofAPI, count, i == runs-1))
			if i < runs-1 {
				w.end(b, kube[i].daemon)
			}
		}
		d := kube[runs-1].daemon
		memory, _ := daemonPSS(b, d)

		took, used := ofStarts(kube)
		fileTook, fileUsed := ofStarts(file)
		inform(b, "5,000 Nodes of the API from start to the kernel", "s", took,
			fmt.Sprintf("processor %.2f s; nodes file %.2f s, %.2f s", used, fileTook, fileUsed))
		atMost(b, "API beside nodes file", "times", took/fileTook, 3, fmt.Sprintf("median of %d each", runs))
		atMost(b, "memory of the API over the nodes file", "MB", memory-fileMemory, 60,
			fmt.Sprintf("%.1f, nodes file %.1f", memory, fileMemory))
		inform(b, "peak of memory with the API", "MB", peak(b, d.PID()), fmt.Sprintf("nodes file %.1f", filePeak))

		applied := waitSynced(b, d).GetPass().GetApplied()
		w.move(b, m, d, applied, moved, "one Node of 5,000 moved", func() error { return crowd.annotate(moved, shift) })
		w.storm(b, m, d, crowd, count)
		w.again(b, m, d, api, memory)
		w.fromCopy(b, m, d, api, count, moved)

		w.end(b, d)
		if err := crowd.annotate(moved, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// start is one start of a daemon.
type start struct {
	daemon    *lab.Netclassd
	took, cpu time.Duration // until all class paths were in the kernel
}

// ofStarts returns the median time and processor time of starts, in seconds.
func ofStarts(of []start) (took, cpu float64) {
	var all [2][]float64
	for _, s := range of {
		all[0] = append(all[0], s.took.Seconds())
		all[1] = append(all[1], s.cpu.Seconds())
	}
	return median(all[0]), median(all[1])
}

// start starts a daemon that knows nothing of earlier ones and waits until all
// class paths are in the kernel.
func (w *world) start(b *testing.B, m *monitor, opts lab.NetclassdOptions, count int, settle bool) start {
	b.Helper()
	if err := os.RemoveAll(w.File("netclassd")); err != nil {
		b.Fatal(err)
	}
	paths := classPaths(count)
	arrived := m.await(paths)
	begun := time.Now()
	d, err := w.StartNetclassd(opts)
	if err != nil {
		b.Fatal(err)
	}
	s := start{daemon: d, took: wait(b, m, arrived, d.Process).Sub(begun), cpu: cpu(d.PID())}
	waitSynced(b, d)
	w.verify(b, paths, nil)
	if settle {
		pause(b, settling)
	}
	return s
}

// end stops a daemon, which takes all that it made with it.
func (w *world) end(b *testing.B, d *lab.Netclassd) {
	b.Helper()
	if err := d.Stop(); err != nil {
		b.Fatal(err)
	}
	w.clear(b)
}

// storm has every Node's kubelet report, and nothing may change in the kernel.
func (w *world) storm(b *testing.B, m *monitor, d *lab.Netclassd, crowd *kubelets, count int) {
	b.Helper()
	before, used := waitSynced(b, d).GetPass(), cpu(d.PID())
	m.await(nil)
	begun := time.Now()
	crowd.each(count, crowd.heartbeat)
	took := time.Since(begun)
	pause(b, time.Second)
	after := waitSynced(b, d).GetPass()
	used = cpu(d.PID()) - used
	beside := fmt.Sprintf("in %.1f s; processor %.2f s, %d passes", took.Seconds(), used.Seconds(), after.GetPasses()-before.GetPasses())
	atMost(b, "5,000 heartbeats: changes", "ops", float64(after.GetApplied()-before.GetApplied()+after.GetFailed()-before.GetFailed()), 0, beside)
	atMost(b, "5,000 heartbeats: changes in the kernel", "events", float64(len(m.heard())), 0, "")
	memory, _ := daemonPSS(b, d)
	inform(b, "memory after 5,000 heartbeats", "MB", memory, "")
}

// again has the API server come back without its history, so that all Nodes are
// read anew.
func (w *world) again(b *testing.B, m *monitor, d *lab.Netclassd, api *kubeapi.Server, before float64) {
	b.Helper()
	applied := waitSynced(b, d).GetPass().GetApplied()
	m.await(nil)
	api.Down()
	api.Compact()
	api.Up()
	pause(b, 2*settling)
	memory, _ := daemonPSS(b, d)
	after := waitSynced(b, d).GetPass().GetApplied()
	atMost(b, "5,000 Nodes read anew: changes", "ops", float64(after-applied), 0, fmt.Sprintf("%d events", len(m.heard())))
	atMost(b, "5,000 Nodes read anew: memory", "MB", memory, before+60, fmt.Sprintf("peak %.1f", peak(b, d.PID())))
}

// fromCopy starts the daemon anew while the API server is away: the last good
// copy stands in for it.
func (w *world) fromCopy(b *testing.B, m *monitor, d *lab.Netclassd, api *kubeapi.Server, count, moved int) {
	b.Helper()
	pause(b, settling) // a copy of what has changed is made now and then
	w.end(b, d)
	api.Down()
	paths := classPaths(count)
	for _, f := range routing.Families {
		paths[pods(moved, f)] = peerNet(lab.PodNet, moved+shift, f).Addr()
	}
	arrived := m.await(paths)
	begun := time.Now()
	if err := d.Start(); err != nil {
		b.Fatal(err)
	}
	inform(b, "5,000 Nodes of the last good copy from start to the kernel", "s", wait(b, m, arrived, d.Process).Sub(begun).Seconds(), "the API server is away")
	api.Up()
}
