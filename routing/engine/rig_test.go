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
	"netclass.dev/test/fakekernel"
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
		StateDir: r.stateDir, Version: "test", Log: slog.New(slog.NewTextHandler(r.log, nil)),
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
	for _, p := range r.nodes.Load().Node(s.Key.Peer).PodCIDRs {
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

// fakeKernel is a kernel in memory that records what is asked of it, with the
// kernel's times for a probe.
type fakeKernel struct {
	*fakekernel.Kernel
	mu      sync.Mutex
	dumps   int
	probes  int
	batches [][]routing.Op
	notify  func(dump bool)

	dumpErr error
	onDump  func(*routing.Kernel)
	onApply func([]routing.Op) []error // before the change; errors refuse
	applied func(routing.Op, *routing.Kernel)
	dead    map[netip.Addr]bool
	probing error
}

// seedAddrs are this node's links and addresses.
var seedAddrs = []struct {
	link  string
	addrs []string
}{
	{"mgmt0", []string{"10.40.0.1/24", "fd00:40::1/64"}},
	{"node0", []string{"10.46.0.1/24", "fd00:46::1/64"}},
	{"ingress0", []string{"10.47.0.1/24", "fd00:47::1/64"}},
	{"pod0", []string{"10.48.0.1/24", "fd00:48::1/64"}},
	{"cilium_host", []string{"10.244.1.1/32", "fd00:10:244:1::1/128"}},
}

func newFakeKernel() *fakeKernel {
	k := &fakeKernel{Kernel: fakekernel.New(), dead: map[netip.Addr]bool{}}
	for _, s := range seedAddrs {
		k.addLink(s.link)
	}
	return k
}

// addLink makes one of the seed's links.
func (k *fakeKernel) addLink(name string) {
	if err := k.AddLink(name); err != nil {
		panic(err)
	}
	k.addAddrs(name)
}

// addAddrs gives a link that exists the addresses that it lacks.
func (k *fakeKernel) addAddrs(name string) {
	if k.Picture().Link(name) == nil {
		return
	}
	for _, s := range seedAddrs {
		for _, a := range s.addrs {
			if s.link == name {
				if err := k.AddAddr(name, netip.MustParsePrefix(a)); err != nil {
					panic(err)
				}
			}
		}
	}
}

func (k *fakeKernel) Dump(ctx context.Context) (*routing.Kernel, error) {
	k.mu.Lock()
	k.dumps++
	err, onDump := k.dumpErr, k.onDump
	k.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p, err := k.Kernel.Dump(ctx)
	if err == nil && onDump != nil {
		onDump(p)
	}
	return p, err
}

func (k *fakeKernel) Apply(ctx context.Context, ops []routing.Op) []error {
	k.mu.Lock()
	k.batches = append(k.batches, slices.Clone(ops))
	onApply, applied := k.onApply, k.applied
	k.mu.Unlock()
	var refused []error
	if onApply != nil {
		refused = onApply(ops)
	}
	k.SetFaults(fakekernel.Faults{Applied: applied, Apply: func(n int, _ routing.Op) error {
		if refused != nil {
			return refused[n]
		}
		return nil
	}})
	return k.Kernel.Apply(ctx, ops)
}

func (k *fakeKernel) Watch(ctx context.Context, notify func(bool)) error {
	k.set(func(k *fakeKernel) { k.notify = notify })
	return k.Kernel.Watch(ctx, notify)
}

func (k *fakeKernel) Probe(ctx context.Context, link string, hop netip.Addr) (bool, error) {
	k.mu.Lock()
	k.probes++
	dead, err := k.dead[hop], k.probing
	k.mu.Unlock()
	if err != nil {
		return false, err
	}
	took := time.Millisecond
	if dead {
		took = 3100 * time.Millisecond
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(took):
		return !dead, nil
	}
}

// foreign makes changes as another process does.
func (k *fakeKernel) foreign(verb routing.Verb, routes ...routing.Route) {
	for _, r := range routes {
		if err := k.Foreign(routing.Op{Verb: verb, Route: r}); err != nil {
			panic(err)
		}
	}
}

// ours returns the routes that netclass has.
func (k *fakeKernel) ours() []routing.Route {
	return slices.DeleteFunc(k.Picture().Routes, func(r routing.Route) bool { return r.Protocol == routing.ProtocolKernel })
}

func (k *fakeKernel) die(hop netip.Addr, dead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead[hop] = dead
}

func (k *fakeKernel) set(f func(*fakeKernel)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k)
}

func (k *fakeKernel) has(f func(routing.Route) bool) bool {
	return slices.ContainsFunc(k.Picture().Routes, f)
}

// text is every rule and route that is not the kernel's own.
func (k *fakeKernel) text() string {
	var b strings.Builder
	for _, r := range k.Picture().Rules {
		if r.Protocol != routing.ProtocolKernel {
			b.WriteString(r.String() + "\n")
		}
	}
	for _, r := range k.ours() {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

// taken returns the batches since the last call.
func (k *fakeKernel) taken() [][]routing.Op {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.batches
	k.batches = nil
	return b
}

func (k *fakeKernel) count() (dumps, probes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dumps, k.probes
}

// fakeSpeaker records its orders and says what a test lets it say.
type fakeSpeaker struct {
	mu       sync.Mutex
	notify   func()
	orders   []*routing.Speak
	sessions []routing.Session
	status   routing.SpeakerStatus
	onSet    func(*routing.Speak)
	hung     bool   // it confirms nothing
	closed   []bool // each Close, with CEASE or not
}

func (s *fakeSpeaker) Set(ctx context.Context, want *routing.Speak) error {
	s.mu.Lock()
	hung := s.hung
	s.mu.Unlock()
	if hung {
		defer func() { <-ctx.Done() }()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, want)
	s.status.Wanted, s.status.PID = want != nil, 7
	old := make(map[routing.SessionKey]routing.Session, len(s.sessions))
	for _, o := range s.sessions {
		old[o.Key] = o
	}
	s.sessions = nil
	if want != nil {
		for _, n := range want.Neighbors {
			if o, ok := old[n.Key]; ok {
				s.sessions = append(s.sessions, o)
			} else {
				s.sessions = append(s.sessions, routing.Session{Key: n.Key, Since: time.Now()})
			}
		}
	}
	if s.onSet != nil {
		s.onSet(want)
	}
	return nil
}

func (s *fakeSpeaker) Sessions() []routing.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

func (s *fakeSpeaker) Status() routing.SpeakerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *fakeSpeaker) Close(cease bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, cease)
	s.sessions, s.status = nil, routing.SpeakerStatus{}
	return nil
}

func (s *fakeSpeaker) change(key routing.SessionKey, f func(*routing.Session)) {
	s.mu.Lock()
	for i := range s.sessions {
		if s.sessions[i].Key == key {
			f(&s.sessions[i])
		}
	}
	s.mu.Unlock()
	s.notify()
}

// die is the end of the speaker process.
func (s *fakeSpeaker) die() {
	s.mu.Lock()
	for i := range s.sessions {
		if o := &s.sessions[i]; o.State == routing.Established {
			o.State, o.Since, o.Cause, o.EndOfRIB, o.Paths = routing.Idle, time.Now(), routing.CauseConnection, false, nil
		}
	}
	s.mu.Unlock()
	s.notify()
}

func (s *fakeSpeaker) taken() []*routing.Speak {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders
	s.orders = nil
	return o
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
