// Package fib is a pure model of the Linux kernel's route lookup: policy rules
// in order of priority, the longest prefix in the table that a rule names, the
// lowest metric of that prefix. It answers for a picture of the kernel what the
// kernel itself would answer, and can say why.
//
// It models two lookups. Stack is the network stack's own (net/ipv4/route.c,
// net/ipv6/route.c). BPF is the helper bpf_fib_lookup (net/core/filter.c), with
// which an eBPF datapath forwards past the stack; the two differ in IPv6.
//
// Not modelled: VRFs, TOS, route expiry, next-hop groups beyond their first
// hop, multicast and link-local destinations, and whether a source address is
// one of the host's own. IPv6 forwarding is taken to be on: without it the
// kernel also prefers routes whose router answers.
package fib

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// loopback is the link that locally made packets arrive by.
const loopback = "lo"

// Flow is a packet whose way is asked for.
type Flow struct {
	Dst netip.Addr
	Src netip.Addr // zero: none chosen yet, as for a socket's first lookup
	IIF string     // the link it arrived by; empty: made by the host itself
	// OIF is the link that the sending socket is bound to (SO_BINDTODEVICE), or
	// for BPF the link asked about (BPF_FIB_LOOKUP_OUTPUT). It means nothing for
	// a packet that arrived by a link.
	OIF  string
	Mark uint32
}

// Mode says whose lookup is modelled.
type Mode uint8

// The two lookups. In IPv6, BPF ends at a throw route, ignores
// suppress_prefixlength, and with an OIF does not look at `from`; in IPv4 it
// differs only for a bound socket, where the stack takes any destination
// without a route to be on the link.
const (
	Stack Mode = iota
	BPF
)

func (m Mode) String() string {
	if m == BPF {
		return "bpf"
	}
	return "stack"
}

// Action is what becomes of a packet.
type Action uint8

// The actions. NoRoute is the network being unreachable: no rule's table had
// an answer.
const (
	NoRoute Action = iota
	Forward        // sent by a link
	Local          // delivered here (also broadcast and multicast)
	Unreachable
	Blackhole
	Prohibit
)

var actionNames = [...]string{"no route", "forward", "local", "unreachable", "blackhole", "prohibit"}

func (a Action) String() string { return actionNames[a] }

// Result is the answer to a lookup.
type Result struct {
	Action Action
	// Route is the route that decided; zero for NoRoute and where the rule itself
	// rejects. Its table is 0 for a destination that a bound socket takes to be on
	// the link.
	Route routing.Route
	Rule  routing.Rule // the rule that decided; zero for NoRoute
	Steps []Step       // by Trace only
}

// Step is one rule on the way to the answer.
type Step struct {
	Rule  routing.Rule
	Match bool
	Why   string         // why it did not match, or what came of it
	Route *routing.Route // what the table answered; nil: nothing
	Beat  []routing.Route
}

// FIB is an indexed picture of the kernel, for any number of lookups, also
// concurrent ones.
type FIB struct {
	routes         []routing.Route
	notes          []note // by index into routes
	rules          routing.PerFamily[[]indexedRule]
	tables         routing.PerFamily[map[routing.TableID]*table]
	links          map[string]*routing.Link
	ignoreLinkDown func(link string) bool
}

// Option changes what a FIB assumes of the kernel.
type Option func(*FIB)

// IgnoreLinkDown says that the sysctl ignore_routes_with_linkdown is on for the
// links, or without any for all links. It is off by default: routes over a link
// that has lost its carrier are still used.
func IgnoreLinkDown(links ...string) Option {
	return func(f *FIB) {
		f.ignoreLinkDown = func(link string) bool { return len(links) == 0 || slices.Contains(links, link) }
	}
}

// New indexes k, which must not change while the FIB is in use. A link that k
// does not list is taken to be up.
func New(k *routing.Kernel, options ...Option) *FIB {
	f := &FIB{
		routes:         k.Routes,
		links:          make(map[string]*routing.Link, len(k.Links)),
		ignoreLinkDown: func(string) bool { return false },
	}
	for _, o := range options {
		o(f)
	}
	for i := range k.Links {
		f.links[k.Links[i].Name] = &k.Links[i]
	}
	f.indexRoutes()
	f.indexRules(k.Rules)
	return f
}

// Lookup says where the packet goes.
func (f *FIB) Lookup(flow Flow, mode Mode) Result { return f.lookup(flow, mode, nil) }

// Trace is Lookup with every rule it passed.
func (f *FIB) Trace(flow Flow, mode Mode) Result {
	steps := []Step{}
	r := f.lookup(flow, mode, &steps)
	r.Steps = steps
	return r
}
