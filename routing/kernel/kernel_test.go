package kernel_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
	"netclass.dev/test/netns"
)

// node is a namespace with a link pod0 (addresses .1) whose other end, port,
// has the addresses .2 in another namespace.
type node struct {
	*netns.NS
	peer *netns.NS
	k    *kernel.Kernel
}

func newNode(t *testing.T) *node {
	t.Helper()
	t.Parallel()
	n := &node{NS: netns.New(t), peer: netns.New(t)}
	must(t, n.Veth("pod0", n.peer, "port"))
	must(t, n.peer.Up("port"))
	must(t, n.Up("pod0"))
	must(t, n.Addr("pod0", "10.48.0.1/24", "fd00:48::1/64"))
	must(t, n.peer.Addr("port", "10.48.0.2/24", "fd00:48::2/64"))
	n.k = open(t, n.NS)
	return n
}

func open(t testing.TB, n *netns.NS) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: n.Fd()})
	must(t, err)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apply carries out ops that must all succeed.
func (n *node) apply(t *testing.T, ops ...routing.Op) {
	t.Helper()
	for _, err := range n.k.Apply(t.Context(), ops) {
		must(t, err)
	}
}

func (n *node) dump(t *testing.T) *routing.Kernel {
	t.Helper()
	p, err := n.k.Dump(context.Background())
	must(t, err)
	return p
}

// show gives the lines of `ip ARGS` without trailing blanks.
func (n *node) show(t *testing.T, args string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(n.MustIP(t, args)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func wantLines(t *testing.T, got []string, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if g, w := strings.Join(got, "\n"), strings.Join(lines, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// route reads "DST [via VIA] [dev LINK] [src SRC] …" for a table 47 route.
func route(t testing.TB, s string, change ...func(*routing.Route)) routing.Route {
	t.Helper()
	r := routing.Route{Table: 47, Metric: routing.MetricPath, Protocol: routing.ProtocolNetclass}
	words := strings.Fields(s)
	for kind := routing.Local; kind <= routing.Throw; kind++ {
		if words[0] == kind.String() {
			r.Type, words = kind, words[1:]
		}
	}
	r.Dst = netip.MustParsePrefix(words[0])
	for i := 1; i+1 < len(words); i += 2 {
		switch v := words[i+1]; words[i] {
		case "via":
			r.Via = netip.MustParseAddr(v)
		case "dev":
			r.Link = v
		case "src":
			r.Src = netip.MustParseAddr(v)
		default:
			t.Fatalf("route %q: unknown word %q", s, words[i])
		}
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func metric(m uint32) func(*routing.Route) { return func(r *routing.Route) { r.Metric = m } }
func mtu(m uint32) func(*routing.Route)    { return func(r *routing.Route) { r.MTU = m } }
func onlink(r *routing.Route)              { r.OnLink = true }
func table(id routing.TableID) func(*routing.Route) {
	return func(r *routing.Route) { r.Table = id }
}

func add(r routing.Route) routing.Op     { return routing.Op{Verb: routing.Add, Route: r} }
func replace(r routing.Route) routing.Op { return routing.Op{Verb: routing.Replace, Route: r} }
func del(r routing.Route) routing.Op     { return routing.Op{Verb: routing.Delete, Route: r} }
func addRule(r routing.Rule) routing.Op  { return routing.Op{Verb: routing.Add, Rule: r} }
func delRule(r routing.Rule) routing.Op  { return routing.Op{Verb: routing.Delete, Rule: r} }

// ours returns the routes of the protocol.
func ours(k *routing.Kernel, p routing.Protocol) []routing.Route {
	var out []routing.Route
	for _, r := range k.Routes {
		if r.Protocol == p {
			out = append(out, r)
		}
	}
	return out
}

func wantErr(t *testing.T, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func TestOpenWithoutNamespace(t *testing.T) {
	f, err := os.Open(os.DevNull)
	must(t, err)
	defer f.Close()
	if _, err := kernel.Open(kernel.Config{NetNS: int(f.Fd())}); err == nil {
		t.Error("a device was taken for a network namespace")
	}
}

func TestClosed(t *testing.T) {
	n := newNode(t)
	must(t, n.k.Close())
	must(t, n.k.Close())
	if _, err := n.k.Dump(t.Context()); err == nil {
		t.Error("dump of a closed kernel worked")
	}
	if errs := n.k.Apply(t.Context(), []routing.Op{add(route(t, "10.9.0.0/16 dev pod0"))}); errs == nil {
		t.Error("apply on a closed kernel worked")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := open(t, n.NS)
	errs := k.Apply(ctx, []routing.Op{add(route(t, "10.9.0.0/16 dev pod0"))})
	if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("apply with a cancelled context: %v", errs)
	}
}
