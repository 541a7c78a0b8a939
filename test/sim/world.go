package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/test/fakekernel"
)

// world is everything around one node's daemon, and the daemon.
type world struct {
	mu   sync.Mutex // held while anything changes or is looked at
	seed uint64
	rng  *rand.Rand

	kernel  *fakekernel.Kernel
	example string
	plain   bool // the older design, of which no packets are foretold
	chosen  []variant
	config  *routing.Config   // the newest
	inForce *routing.Config   // that the newest pass was made with
	configs []*routing.Config // that may still have something in the kernel
	owned   map[routing.TableID][]string
	nodes   []*node
	highest int // node number ever used
	listed  routing.Inventory
	dir     string

	engine  *engine.Engine
	hand    *hand
	speaker *speaker
	stop    context.CancelFunc
	done    chan struct{}
	crashed bool
	inPass  bool // a change of the world comes while the daemon writes
	ceased  bool

	// What goes wrong.
	refuseAll error                 // of what is refused; nil: nothing is
	refused   func(routing.Op) bool // what that is
	dumpsFail int
	overrun   chan struct{}
	deaf      bool
	unwatched bool                      // the daemon cannot subscribe
	watched   bool                      // it has subscribed
	full      bool                      // the state cannot be saved
	trap      func(op routing.Op) error // before the op that trapIn counts down to
	trapIn    int

	// What is known of the world.
	memory    map[string][]netip.Prefix // networks of the gateway-less class links
	sight     *sight
	bare      [7][]answer
	since     uint64 // the pass that the newest change preceded
	quiet     time.Time
	contested bool
	shifted   bool // the configuration has changed: its old state must not be lost
	draining  routing.Draining
	said      map[routing.Family][]routing.Path // by the router

	opCount, events int
	trace           bool
	history         []string
	begin           time.Time
	found           []violation
}

// violation is an invariant found broken.
type violation struct {
	invariant int
	text      string
}

// violated records a violation. The history ends at the first.
func (w *world) violated(invariant int, format string, args ...any) {
	if len(w.found) < 5 {
		v := violation{invariant, fmt.Sprintf(format, args...)}
		w.found = append(w.found, v)
		w.note("INVARIANT %d: %s", v.invariant, v.text)
	}
}

// note writes a line of the history.
func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%8.3fs  ", time.Since(w.begin).Seconds())+fmt.Sprintf(format, args...))
}

// newWorld makes a healthy cluster whose daemon has not started yet.
func newWorld(seed uint64, example, dir string) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), example: example, dir: dir,
		kernel: fakekernel.New(), owned: map[routing.TableID][]string{}, memory: map[string][]netip.Prefix{},
		overrun: make(chan struct{}), begin: time.Now(), said: map[routing.Family][]routing.Path{},
	}
	for n := 1; n <= 3; n++ {
		w.nodes = append(w.nodes, newNode(n))
	}
	w.highest = 3
	for _, h := range hosts() {
		w.makeLink(h)
	}
	w.cni()
	for _, r := range strays() {
		w.must(w.kernel.Foreign(r))
	}
	return w
}

// strays are objects of others that are there from the start: a mesh VPN's rule
// and table, the kernel's own rule for VRFs at our priority, one with selectors
// that we do not know, and what somebody made with our protocol number.
func strays() []routing.Op {
	vpn := routing.Rule{Family: routing.IPv4, Priority: 5270, Table: 52, Protocol: routing.ProtocolStatic, SuppressPrefixLen: routing.NoSuppress, From: prefix("100.64.0.0/10")}
	twin := routing.Rule{Family: routing.IPv4, Priority: strayPriority, Table: strayTable, Protocol: ours, SuppressPrefixLen: routing.NoSuppress, From: prefix("203.0.113.0/24")}
	vrf := routing.Rule{Family: routing.IPv4, Priority: 1000, L3MDev: true, Protocol: routing.ProtocolKernel, SuppressPrefixLen: routing.NoSuppress}
	vrf6 := vrf
	vrf6.Family = routing.IPv6
	ports := routing.Rule{Family: routing.IPv4, Priority: 900, Table: 52, Opaque: true, Extra: "ipproto tcp dport 853", Protocol: routing.ProtocolStatic, SuppressPrefixLen: routing.NoSuppress}
	return []routing.Op{
		{Rule: vpn}, {Rule: twin}, {Rule: vrf}, {Rule: vrf6}, {Rule: ports},
		{Route: routing.Route{Table: 52, Dst: prefix("100.64.0.0/10"), Metric: 10, Type: routing.Unreachable, Protocol: routing.ProtocolStatic}},
		{Route: routing.Route{Table: strayTable, Dst: prefix("203.0.113.0/24"), Metric: 10, Type: routing.Unreachable, Protocol: ours}},
		{Route: routing.Route{Table: routing.MainID, Dst: prefix("198.51.100.0/24"), Metric: 20, Type: routing.Blackhole, Protocol: routing.ProtocolBIRD}},
	}
}

func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("seed %d: the world cannot be made: %v", w.seed, err))
	}
}

func (w *world) makeLink(h host) {
	w.must(w.kernel.AddLink(h.name))
	for _, a := range h.addrs {
		w.must(w.kernel.AddAddr(h.name, a))
	}
}

// cni puts back what the system and the CNI keep in main, as far as its links
// are there.
func (w *world) cni() {
	k := w.kernel.Picture()
	for _, r := range mainRoutes(w.nodes) {
		if !slices.ContainsFunc(k.Routes, func(o routing.Route) bool { return o.Key() == r.Key() }) {
			_ = w.kernel.Foreign(routing.Op{Verb: routing.Add, Route: r}) // not while its link is down
		}
	}
}

// setConfig puts a configuration in force.
func (w *world) setConfig(chosen []variant) {
	c, err := configure(w.example, chosen)
	w.must(err)
	w.chosen, w.config = chosen, c
	w.configs = append(w.configs, c)
	if w.engine != nil {
		w.engine.Configure(c, routing.ConfigStatus{Path: "config.yaml"}, nil)
	}
}

// list tells the inventory what the nodes are.
func (w *world) list() {
	w.listed.Nodes = nil
	for _, n := range w.nodes {
		w.listed.Nodes = append(w.listed.Nodes, n.says)
	}
	w.listed.Source = "nodes file nodes.yaml"
}

// moved says that the world is not what it was.
func (w *world) moved() {
	w.sight = nil
	w.quiet = time.Now()
	w.since = 0
	if w.engine != nil {
		w.since = w.engine.State().Sequence
		if w.inPass {
			w.since++ // the pass under way has read its inputs already
		}
		w.speaker.follow()
	}
}

// changed says that the kernel is not what it was: what a pass over it must have
// mended is counted from here. The daemon hears of it from the kernel, or not.
func (w *world) changed() {
	if w.hand != nil {
		w.hand.stale, w.hand.pass.disturb = true, true
	}
	w.moved()
}

// look says that the nodes or the peers are not what they were, and tells the
// daemon.
func (w *world) look() {
	w.moved()
	if w.engine != nil {
		w.engine.Look()
	}
}

// wait lets time pass, unlocked.
func (w *world) wait(d time.Duration) {
	w.mu.Unlock()
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// addressUsable reports whether packets can be sent from an address of a link.
func (w *world) addressUsable(link string, a netip.Addr) bool {
	l := w.kernel.Link(link)
	return l.Usable() && slices.ContainsFunc(l.Addrs, func(la routing.LinkAddr) bool { return la.Prefix.Addr() == a && la.Usable() })
}
