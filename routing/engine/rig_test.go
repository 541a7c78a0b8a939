package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/intent"
	"netclass.dev/routing/inventory"
)

// rig is one engine of node k8s-1 of the example cluster, with hands that a
// test holds.
type rig struct {
	t        *testing.T
	kernel   *fakeKernel
	speaker  *fakeSpeaker
	nodes    atomic.Pointer[routing.Inventory]
	engine   *engine.Engine
	log      *safeBuffer
	stateDir string
	meddler  func() (string, time.Time)
	passed   func() time.Duration

	stop context.CancelFunc
	done chan struct{}
}

// bubble runs a test in a bubble of its own time.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, kernel: newFakeKernel(), speaker: &fakeSpeaker{}, stateDir: dir}
		r.setNodes(seedNodes(t)...)
		r.make()
		f(t, r)
		r.end()
	})
}

// make gives the rig a new engine, as a restart of the daemon does. The kernel
// stays.
func (r *rig) make() {
	r.log = &safeBuffer{}
	r.engine = engine.New(engine.Options{
		Kernel: r.kernel, Speaker: r.speaker, Inventory: r.nodes.Load,
		Node:     func(*routing.Config) string { return "k8s-1" },
		StateDir: r.stateDir, Version: "test", Log: slog.New(slog.NewTextHandler(r.log, nil)), Meddler: r.meddler, Passed: r.passed, Unanswered: r.kernel.unanswered,
	})
	r.speaker.notify = r.engine.Look
}

// start runs the engine, with a configuration unless that is nil, until it has
// nothing more to do.
func (r *rig) start(c *routing.Config) {
	if c != nil {
		r.engine.Configure(c, routing.ConfigStatus{Path: "config.yaml"}, nil)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop, r.done = stop, make(chan struct{})
	go func() { defer close(r.done); r.engine.Run(ctx) }()
	r.wait(200 * time.Millisecond)
}

// end ends Run and waits for it.
func (r *rig) end() {
	if r.stop == nil {
		return
	}
	r.stop()
	<-r.done
	r.stop = nil
}

// wait lets time pass.
func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// converge starts the seed's configuration and brings up every session.
func (r *rig) converge() {
	r.start(seedConfig(r.t))
	r.establish("k8s-2", "k8s-3")
	r.wait(200 * time.Millisecond)
	if s := r.state(); !s.Pass.Synced || s.Health != routing.Ready {
		r.t.Fatalf("not converged: health %s, pass %+v, conditions %v", s.Health, s.Pass, s.Conditions)
	}
}

// establish brings up both sessions of each node, which say everything.
func (r *rig) establish(nodes ...string) {
	for _, name := range nodes {
		for _, f := range routing.Families {
			r.session(name, f, func(s *routing.Session) { r.up(s, true) })
		}
	}
}

// up makes a session one that has just come up, with what the inventory says
// of the node.
func (r *rig) up(s *routing.Session, endOfRIB bool) {
	s.State, s.Since, s.EndOfRIB, s.Cause, s.PeerRestartTime = routing.Established, time.Now(), endOfRIB, routing.CauseNone, 10*time.Second
	s.Paths = nil
	n := r.nodes.Load().Node(s.Key.Peer)
	if n == nil {
		return // a router
	}
	for _, p := range n.PodCIDRs {
		if routing.FamilyOf(p.Addr()) == s.Key.Family {
			s.Paths = append(s.Paths, routing.Path{Prefix: p, NextHop: hopOf(s.Key.Peer, s.Key.Family)})
		}
	}
}

// hopOf is a node's address on pod0.
func hopOf(node string, f routing.Family) netip.Addr {
	digit := strings.TrimPrefix(node, "k8s-")
	if f == routing.IPv4 {
		return netip.MustParseAddr("10.48.0." + digit)
	}
	return netip.MustParseAddr("fd00:48::" + digit)
}

// session changes what the speaker says of a session.
func (r *rig) session(node string, f routing.Family, change func(*routing.Session)) {
	r.speaker.change(routing.SessionKey{Peer: node, Family: f}, change)
}

// down ends a session.
func (r *rig) down(node string, f routing.Family, cause routing.DownCause) {
	r.session(node, f, func(s *routing.Session) {
		s.State, s.Since, s.Cause, s.EndOfRIB, s.Paths = routing.Idle, time.Now(), cause, false, nil
	})
}

func (r *rig) state() *routing.State { return r.engine.State() }

func (r *rig) setNodes(nodes ...routing.Node) {
	r.nodes.Store(&routing.Inventory{Nodes: nodes, Synced: true, Source: "nodes file nodes.yaml"})
}

// path reports whether the kernel has a node's class path of the family.
func (r *rig) path(node string, f routing.Family) bool {
	return r.kernel.has(func(rt routing.Route) bool {
		return rt.Table == 47 && rt.Metric == routing.MetricPath && rt.Via == hopOf(node, f)
	})
}

func (r *rig) wantPath(node string, f routing.Family, want bool, when string) {
	r.t.Helper()
	if r.path(node, f) != want {
		r.t.Errorf("%s: class path of %s/%s: %v, want %v", when, node, f, !want, want)
	}
}

func (r *rig) condition(object, reason string) *routing.Condition {
	for _, c := range r.state().Conditions {
		if c.Object == object && (reason == "" || c.Reason == reason) {
			return &c
		}
	}
	return nil
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// seedConfig is the example cluster's configuration over a nodes file, with
// pairs of old and new text replaced in it.
func seedConfig(t *testing.T, replace ...string) *routing.Config {
	t.Helper()
	text, err := os.ReadFile("../../examples/seed/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	replace = append([]string{"kubernetes: {kubeconfig: /etc/netclassd/kubeconfig}", "nodesFile: nodes.yaml"}, replace...)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("the example does not say %q", replace[i])
		}
	}
	c, problems := intent.Parse("config.yaml", []byte(strings.NewReplacer(replace...).Replace(string(text))))
	if c == nil {
		t.Fatal(problems)
	}
	return c
}

func seedNodes(t *testing.T) []routing.Node {
	t.Helper()
	text, err := os.ReadFile("../../examples/seed/nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nodes, problems := inventory.Parse("nodes.yaml", text)
	if nodes == nil {
		t.Fatal(problems)
	}
	return nodes
}

// opsOf joins batches.
func opsOf(batches [][]routing.Op) []routing.Op { return slices.Concat(batches...) }

func textOf(ops []routing.Op) string {
	var b strings.Builder
	for _, op := range ops {
		b.WriteString(op.Stage.String() + ": " + op.String() + "\n")
	}
	return b.String()
}

func sortedLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func routeAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

func routePrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
