package engine_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/fakekernel"
)

// fakeKernel is a kernel in memory that records what is asked of it, with the
// kernel's times for a probe.
type fakeKernel struct {
	*fakekernel.Kernel
	mu      sync.Mutex
	dumps   int
	probes  int
	batches [][]routing.Op
	notify  func(dump bool)

	dumpErr  error
	onDump   func(*routing.Kernel)
	onApply  func([]routing.Op) []error // before the change; errors refuse
	applied  func(routing.Op, *routing.Kernel)
	dead     map[netip.Addr]bool
	probing  error
	watching func(context.Context) error // in the place of a watch that works
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
	k.cni()
	return k
}

// protocolCNI is whose the CNI's routes are.
const protocolCNI routing.Protocol = 17

// cni puts in what the CNI has in main, as far as it is not there.
func (k *fakeKernel) cni() {
	for _, r := range []routing.Route{
		{Table: routing.MainID, Dst: netip.MustParsePrefix("10.244.0.0/16"), Link: "cilium_host", Protocol: protocolCNI},
		{Table: routing.MainID, Dst: netip.MustParsePrefix("fd00:10:244::/48"), Metric: 1024, Link: "cilium_host", Protocol: protocolCNI},
	} {
		if !k.has(func(there routing.Route) bool { return there.Key() == r.Key() }) {
			k.foreign(routing.Add, r)
		}
	}
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

// The levers on links that tests pull without asking whether the link is there:
// random histories take links away.

func (k *fakeKernel) SetUp(link string, up bool)      { _ = k.Kernel.SetUp(link, up) }
func (k *fakeKernel) SetCarrier(link string, on bool) { _ = k.Kernel.SetCarrier(link, on) }
func (k *fakeKernel) DeleteLink(link string)          { _ = k.Kernel.DeleteLink(link) }

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
	var watching func(context.Context) error
	k.set(func(k *fakeKernel) { k.notify, watching = notify, k.watching })
	if watching != nil {
		return watching(ctx)
	}
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

// unanswered reports whether a next hop is dead and has been asked.
func (k *fakeKernel) unanswered(_ context.Context, _ string, hop netip.Addr) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead[hop]
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
	return slices.DeleteFunc(k.Picture().Routes, func(r routing.Route) bool {
		return r.Protocol == routing.ProtocolKernel || r.Protocol == protocolCNI
	})
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
	away     bool   // no router answers
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
	s.status.Wanted, s.status.PID, s.status.Confirmed = want != nil, 7, !hung
	if want == nil {
		s.status.PID = 0
	}
	old := make(map[routing.SessionKey]routing.Session, len(s.sessions))
	for _, o := range s.sessions {
		old[o.Key] = o
	}
	s.sessions = nil
	if want != nil {
		for i, n := range want.Neighbors {
			if o, ok := old[n.Key]; ok {
				s.sessions = append(s.sessions, o)
			} else {
				n := routing.Session{Key: n.Key, Since: time.Now()}
				if want.Neighbors[i].Upstream && !s.away {
					n.State, n.EndOfRIB = routing.Established, true
				}
				s.sessions = append(s.sessions, n)
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

// hang has it confirm nothing, or everything so far and from now on.
func (s *fakeSpeaker) hang(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung, s.status.Confirmed = yes, !yes
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
