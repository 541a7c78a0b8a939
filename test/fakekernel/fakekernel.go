// Package fakekernel is Linux's routing state in memory, for tests that need it
// fast, without root, or failing on command. It has the real one's ways as far as
// the engine can meet them; the conformance suite holds it to that.
//
// Left out: link-local and multicast routes, sysctls, address flags other than
// tentative, and the checks that follow a route through several tables.
package fakekernel

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Kernel is one fake kernel. It is safe for use by several goroutines.
type Kernel struct {
	mu        sync.Mutex
	links     []routing.Link
	lastIndex int
	rules     []routing.Rule
	routes    map[routing.RouteKey][]routing.Route
	alive     map[string]map[netip.Addr]bool // by link: who answers there

	protocols map[routing.Protocol]bool
	tables    map[routing.TableID]bool
	watchers  map[chan struct{}]bool
	deaf      bool

	faults Faults
	writes int // ops that were carried out or tried
	dumps  int
	closed chan struct{}
}

// New returns a kernel as a new network namespace has it, with lo up.
func New() *Kernel {
	k := &Kernel{
		routes:   map[routing.RouteKey][]routing.Route{},
		alive:    map[string]map[netip.Addr]bool{},
		watchers: map[chan struct{}]bool{},
		closed:   make(chan struct{}),
	}
	for _, f := range routing.Families {
		k.rules = append(k.rules, systemRule(f, 0, routing.LocalID), systemRule(f, 32766, routing.MainID))
		if f == routing.IPv4 {
			k.rules = append(k.rules, systemRule(f, 32767, routing.DefaultID))
		}
	}
	k.newLink("lo", 65536, "")
	k.setUp(&k.links[0], true)
	k.addAddr(&k.links[0], netip.MustParsePrefix("127.0.0.1/8"))
	k.addAddr(&k.links[0], netip.MustParsePrefix("::1/128"))
	return k
}

func systemRule(f routing.Family, priority uint32, table routing.TableID) routing.Rule {
	return routing.Rule{Family: f, Priority: priority, Table: table, Protocol: routing.ProtocolKernel, SuppressPrefixLen: routing.NoSuppress}
}

// Close ends every Watch.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.closed:
	default:
		close(k.closed)
	}
	return nil
}

// Dump returns a copy of the whole state.
func (k *Kernel) Dump(ctx context.Context) (*routing.Kernel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dump kernel: %w", err)
	}
	k.dumps++
	if k.faults.Dump != nil {
		if err := k.faults.Dump(); err != nil {
			return nil, fmt.Errorf("dump kernel: %w", err)
		}
	}
	return k.picture(), nil
}

// picture copies the state.
func (k *Kernel) picture() *routing.Kernel {
	p := &routing.Kernel{Links: slices.Clone(k.links), Rules: slices.Clone(k.rules)}
	carrier := map[string]bool{}
	for i := range p.Links {
		p.Links[i].Addrs = slices.Clone(p.Links[i].Addrs)
		carrier[p.Links[i].Name] = p.Links[i].Carrier
	}
	for _, routes := range k.routes {
		for _, r := range routes {
			r.LinkDown = r.Link != "" && !carrier[r.Link]
			p.Routes = append(p.Routes, r)
		}
	}
	slices.SortFunc(p.Routes, byPlace)
	return p
}

// Watch calls notify at the start and after every change that counts.
func (k *Kernel) Watch(ctx context.Context, notify func(dump bool)) error {
	wake := make(chan struct{}, 1)
	k.mu.Lock()
	k.watchers[wake] = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.watchers, wake)
	}()
	notify(true)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.closed:
			return net.ErrClosed
		case <-wake:
			notify(true)
		}
	}
}

// event wakes every watcher. Several events may make one call.
func (k *Kernel) event() {
	if k.deaf {
		return
	}
	for wake := range k.watchers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// SetRange says whose routes and which tables matter to Watch; of main only
// routes of a metric of ours.
func (k *Kernel) SetRange(protocols []routing.Protocol, tables []routing.TableID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.protocols, k.tables = map[routing.Protocol]bool{}, map[routing.TableID]bool{}
	for _, p := range protocols {
		k.protocols[p] = true
	}
	for _, t := range tables {
		k.tables[t] = true
	}
}

// Probe reports whether a neighbour was said to answer on the link, at once.
func (k *Kernel) Probe(ctx context.Context, link string, hop netip.Addr) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("probe %s on %s: %w", hop, link, err)
	}
	if k.faults.Probe != nil {
		if err := k.faults.Probe(link, hop); err != nil {
			return false, fmt.Errorf("probe %s on %s: %w", hop, link, err)
		}
	}
	l := k.link(link)
	return l.Usable() && k.alive[link][hop], nil
}

func (k *Kernel) link(name string) *routing.Link {
	for i := range k.links {
		if k.links[i].Name == name {
			return &k.links[i]
		}
	}
	return nil
}

func (k *Kernel) needLink(name string) (*routing.Link, error) {
	l := k.link(name)
	if l == nil {
		return nil, fmt.Errorf("find link %s: %w", name, unix.ENODEV)
	}
	return l, nil
}
