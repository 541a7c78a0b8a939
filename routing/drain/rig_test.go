package drain_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/drain"
)

// config is a cluster's with a mesh over pod0 and a router over ingress0.
func config() *routing.Config {
	return &routing.Config{
		Networks: []routing.Network{{Name: "pods"}, {Name: "nodes"}},
		Classes: []routing.Class{
			{Name: "pod-pod", Link: "pod0", Traffic: []routing.Traffic{{From: "pods", To: "pods"}}},
			{Name: "world-pod", Link: "ingress0", Traffic: []routing.Traffic{{From: "pods", To: "world"}}},
			{Name: "node-node", Link: "node0", Traffic: []routing.Traffic{{From: "nodes", To: "nodes"}}},
		},
		Tables: []routing.Table{{
			Name: "pods", ID: 47,
			Routes: routing.Sources{
				Peers:   &routing.Peers{Link: "pod0", Learn: routing.LearnBGP, Fallback: routing.Fallback{Link: "node0", NextHop: routing.HopInternalIP}},
				Default: &routing.Default{Link: "ingress0"},
			},
		}},
		Cluster: &routing.Cluster{NodesFile: "nodes.yaml"},
		BGP: &routing.BGP{
			ASN: 64512, Mesh: &routing.Mesh{Link: "pod0"},
			Upstreams: []routing.Upstream{{Name: "udm", Link: "ingress0", Advertise: routing.Advertise{Networks: []string{"pods"}}}},
		},
		Drain: routing.Drain{
			Grace: 10 * time.Second, Timeout: 5 * time.Minute, QuietPPS: 10, QuietFor: 5 * time.Second,
			LeaseNamespace: "kube-system", LeaseName: "netclass-drain",
		},
	}
}

// passTime is how long an engine takes to carry out an order.
const passTime = 20 * time.Millisecond

// world is a cluster of fake engines, with a lease or a mesh between them.
type world struct {
	t     *testing.T
	lease *lease // the one that is configured at first; nil: markers
	other *lease // another
	nodes []*node
}

// node is one of its nodes.
type node struct {
	w      *world
	name   string
	id     netip.Addr
	dir    string
	engine *engine
	log    *safeBuffer

	drainer *drain.Drainer
	stop    context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex
	moved    bool          // its configuration names the other lease
	filed    bool          // it names a nodes file, and no API
	skew     time.Duration // of its clock
	live     *engine       // as others see it; nil: its process is dead
	since    time.Time     // of its process
	counters map[string]routing.LinkCounters
	readErr  error
	busy     map[string]uint64 // packets per look, each way
}

// bubble runs a test with so many nodes in a bubble of its own time.
func bubble(t *testing.T, nodes int, kube bool, f func(t *testing.T, w *world)) {
	t.Helper()
	dirs := make([]string, nodes)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		if kube {
			w.lease = &lease{w: w, name: "kube-system/netclass-drain", is: routing.DrainLease{Version: "1"}}
			w.other = &lease{w: w, name: "netclass/drain", is: routing.DrainLease{Version: "1"}}
		}
		for i := range nodes {
			n := &node{w: w, name: fmt.Sprintf("k8s-%d", i+1), id: netip.AddrFrom4([4]byte{10, 48, 0, byte(i + 1)}), dir: dirs[i], busy: map[string]uint64{}, counters: map[string]routing.LinkCounters{}}
			w.nodes = append(w.nodes, n)
		}
		for _, n := range w.nodes {
			n.boot()
			n.start()
		}
		time.Sleep(time.Second)
		f(t, w)
		for _, n := range w.nodes {
			n.end()
		}
	})
}

// boot gives a node an engine that has just started.
func (n *node) boot() {
	cfg := config()
	if n.w.lease != nil {
		cfg.Cluster = &routing.Cluster{Kubernetes: &routing.Kubernetes{}}
	}
	e := &engine{n: n, next: make(chan struct{}), confirmed: true, told: 2}
	e.state = &routing.State{Plan: &routing.Plan{}, Kernel: &routing.Kernel{}}
	e.make = func() *routing.State {
		s := &routing.State{Node: n.name, Kernel: &routing.Kernel{}, Plan: &routing.Plan{}}
		cfg := *cfg
		s.Config.Config = &cfg
		s.Kernel.Routes = []routing.Route{
			{Table: routing.MainID, Dst: netip.MustParsePrefix("0.0.0.0/0"), Link: "mgmt0"},
			{Table: 47, Dst: netip.MustParsePrefix("0.0.0.0/0"), Link: "ingress0"},
		}
		s.Plan.Speak = &routing.Speak{RouterID: n.id}
		s.Inventory = routing.Inventory{Synced: true, Source: "nodes file nodes.yaml"}
		for _, o := range n.w.nodes {
			node := routing.Node{Name: o.name}
			if n.w.lease != nil {
				node.UID, node.Protected = "uid-"+o.name, true
			}
			s.Inventory.Nodes = append(s.Inventory.Nodes, node)
			if o == n {
				continue
			}
			nb := routing.Neighbor{Key: routing.SessionKey{Peer: o.name, Family: routing.IPv4}, Link: "pod0", Timers: routing.Timers{Keepalive: 3 * time.Second}}
			s.Plan.Speak.Neighbors = append(s.Plan.Speak.Neighbors, nb)
			s.Peers = append(s.Peers, routing.PeerStatus{Neighbor: nb, Session: n.session(nb.Key, o)})
		}
		router := routing.SessionKey{Peer: "udm", Family: routing.IPv6} // of what is announced below
		s.Peers = append(s.Peers, routing.PeerStatus{
			Neighbor: routing.Neighbor{Key: router, Link: "ingress0", Upstream: true},
			Session:  routing.Session{Key: router, State: routing.Established},
		})
		for _, c := range cfg.Classes {
			st := routing.ClassStatus{Class: c, Health: routing.Ready}
			if links, _ := cfg.DrainLinks(e.order.Classes); e.order.Step > routing.DrainClaim && slices.Contains(links, c.Link) {
				if st.Health = routing.DrainingState; e.order.Phase == routing.DrainDone {
					st.Health = routing.Drained
				}
			}
			s.Plan.Classes = append(s.Plan.Classes, st)
		}
		if e.order.Step < routing.DrainUpstream {
			for i := range e.told {
				prefix := netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 15: byte(i)}), 128)
				s.Plan.Announce = append(s.Plan.Announce, routing.Origin{Announcement: routing.Announcement{To: "udm", Prefix: prefix}})
			}
		}
		if n.byFile() {
			cfg.Cluster = &routing.Cluster{NodesFile: "nodes.yaml"}
		}
		if n.w.lease != nil && !n.byFile() {
			named := n.named("")
			cfg.Drain.LeaseNamespace, cfg.Drain.LeaseName, _ = strings.Cut(named.String(), "/")
			l := named.seen()
			s.Inventory.Drain = &l
			for _, o := range n.w.nodes {
				if o != n && l.Holder != "" && len(l.Holder) > len("uid-"+o.name) && l.Holder[:len("uid-"+o.name)+1] == "uid-"+o.name+"/" {
					s.Plan.Drained = append(s.Plan.Drained, o.name)
				}
			}
		} else {
			s.Plan.Drained = slices.Clone(e.markers)
		}
		return s
	}
	n.engine = e
	n.log = &safeBuffer{}
}

// session is a node's with another: as old as the younger of the two.
func (n *node) session(key routing.SessionKey, o *node) routing.Session {
	live, since := o.seen()
	if live == nil {
		return routing.Session{Key: key, State: routing.Active}
	}
	if _, own := n.seen(); own.After(since) {
		since = own
	}
	return routing.Session{Key: key, State: routing.Established, Since: since, RouterID: o.id}
}

// seen is what others see of a node.
func (n *node) seen() (*engine, time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live, n.since
}

func (n *node) show(live *engine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live, n.since = live, time.Now()
}

// start starts a drainer on what the state directory holds.
func (n *node) start() {
	opt := drain.Options{Engine: n.engine, Counters: n.count, StateDir: n.dir, Log: slog.New(slog.NewTextHandler(n.log, nil))}
	if n.w.lease != nil {
		opt.Lease = func(name string) drain.Lease {
			if n.byFile() {
				return nil
			}
			return n.named(name)
		}
	}
	n.engine.forget()
	n.drainer = drain.New(opt)
	n.show(n.engine)
	n.w.hello(n)
	n.engine.look()
	ctx, stop := context.WithCancel(n.w.t.Context())
	n.stop, n.done = stop, make(chan struct{})
	go func() { defer close(n.done); n.drainer.Run(ctx) }()
}

// end ends the drainer as SIGTERM does.
func (n *node) end() {
	if n.stop != nil {
		n.stop()
		<-n.done
		n.stop = nil
		n.show(nil)
		n.w.news()
	}
}

// reboot is a new process on a kernel that has nothing yet.
func (n *node) reboot() {
	n.end()
	n.boot()
	n.start()
}

func (n *node) count(context.Context) (map[string]routing.LinkCounters, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.readErr != nil {
		return nil, n.readErr
	}
	out := map[string]routing.LinkCounters{}
	for _, link := range []string{"pod0", "ingress0", "node0", "mgmt0"} {
		c := n.counters[link]
		c.Received, c.Sent = c.Received+n.busy[link], c.Sent+n.busy[link]
		n.counters[link], out[link] = c, c
	}
	return out, nil
}

func (n *node) traffic(link string, packets uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy[link] = packets
}

// kill ends the goroutine that calls it, as kill -9 ends a process.
func kill() { runtime.Goexit() }

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
