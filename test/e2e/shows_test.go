package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/fibprobe"
	"netclass.dev/test/lab"
)

// expectation is what the kernel of k8s-1 must show, of ours, by family.
type expectation struct {
	file   [2]*fibprobe.Expected
	wanted map[string]bool // lines in our words
}

func readExpectation(t *testing.T) *expectation {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "examples", "seed", "expected-k8s-1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	v4, err := fibprobe.ParseExpected(f)
	if err != nil {
		t.Fatal(err)
	}
	e := &expectation{file: [2]*fibprobe.Expected{v4, v4.IPv6()}, wanted: map[string]bool{}}
	for _, family := range e.file {
		for _, r := range family.Rules {
			e.wanted[r.String()] = true
		}
		for _, r := range append(slices.Clone(family.Table), family.Guard...) {
			e.wanted[r.String()] = true
		}
	}
	// The expectation is about the table; the router's sessions add these, so
	// that an address of the aggregate that nobody serves does not go back to it.
	e.wanted["32761: from all to 10.47.64.0/24 iif ingress0 unreachable"] = true
	e.wanted["32761: from all to fd00:47:64::/112 iif ingress0 unreachable"] = true
	return e
}

// matches compares a node's kernel, as iproute2 shows it, with the expectation.
func (e *expectation) matches(ctx context.Context, n *lab.Node) error {
	shown, err := ours(ctx, n)
	if err != nil {
		return err
	}
	var wrong []string
	for line := range e.wanted {
		if !slices.Contains(shown, line) {
			wrong = append(wrong, "missing: "+line)
		}
	}
	for _, line := range shown {
		if !e.wanted[line] {
			wrong = append(wrong, "not expected: "+line)
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("kernel of %s:\n  %s", n.Name, strings.Join(wrong, "\n  "))
	}
	return nil
}

// ours lists the rules and routes of protocol 148 in any table, by iproute2 and
// so independently of how netclassd reads them. It asks for numbers, because
// names may have been given to them.
func ours(ctx context.Context, n *lab.Node) ([]string, error) {
	var out []string
	for _, family := range []string{"-4", "-6"} {
		rules, err := n.Exec(ctx, "ip", "-N", family, "rule", "show")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(rules) {
			if rule, mine := strings.CutSuffix(strings.TrimSpace(line), " proto 148"); mine {
				rule = strings.Join(strings.Fields(rule), " ")
				if r, ok := strings.CutSuffix(rule, " 7"); ok {
					rule = r + " unreachable"
				}
				out = append(out, rule)
			}
		}
		routes, err := n.Exec(ctx, "ip", "-N", family, "route", "show", "table", "all", "proto", "148")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(routes) {
			out = append(out, routeLine(line))
		}
	}
	return out, nil
}

// routeLine turns a line of `ip -N route` into a routing.Route's own words: without
// what follows from the rest (scope, preference, the lo of an IPv6 reject route)
// and with the table behind the link.
func routeLine(line string) string {
	words := strings.Fields(line)
	reject := words[0] == "7" // RTN_UNREACHABLE
	if reject {
		words[0] = "unreachable"
	}
	var head, table, rest []string
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "scope" || w == "pref" || w == "proto":
			i++
		case w == "dev" && reject:
			i++
		case w == "table":
			if words[i+1] != "254" && words[i+1] != "main" {
				table = words[i : i+2]
			}
			i++
		case w == "metric":
			rest = words[i : i+2]
			i++
		case w == "error": // of a reject route, in some versions: "error 4294967183"
			i++
		default:
			head = append(head, w)
		}
	}
	return strings.Join(slices.Concat(head, table, rest), " ")
}

// TestSeed lets the cluster converge and compares k8s-1 with the expectation:
// what its kernel holds, and where each packet goes in three states, of which
// two have no daemon to help.
func TestSeed(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one := c.Node(1)
	e := readExpectation(t)
	c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })

	probe, err := fibprobe.Open(one.NS().Fd())
	c.must(err)
	defer func() { _ = probe.Close() }()
	for state, name := range e.file[0].States {
		switch state {
		case 1:
			c.must(c.daemons[0].Kill())
			c.must(one.LinkDown(lab.PodNet))
		case 2:
			c.must(one.LinkDown(lab.NodeNet))
		}
		for _, family := range e.file {
			for _, p := range family.Packets {
				for word, ask := range map[string]func() (fibprobe.Answer, error){
					"RTM_GETROUTE":   func() (fibprobe.Answer, error) { return probe.Route(p.Flow) },
					"bpf_fib_lookup": func() (fibprobe.Answer, error) { return probe.BPF(p.Flow) },
				} {
					got, err := ask()
					if err != nil {
						t.Errorf("%s, %s, %s, %s: %v", name, routing.FamilyOf(p.Flow.Dst), p.Name, word, err)
					} else if got.String() != p.Want[state].String() {
						t.Errorf("%s, %s, %s by %s: %s (%s), want %s", name, routing.FamilyOf(p.Flow.Dst), p.Name, word, got, got.Code, p.Want[state])
					}
				}
			}
		}
	}
	c.routerSawNothing()
}

// TestClasses sends real packets and counts them on the links they leave by.
func TestClasses(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, two := c.Node(1), c.Node(2)
	before, err := one.Counts()
	c.must(err)
	const count = 5
	for _, f := range routing.Families {
		for _, flow := range []struct {
			from *lab.Host
			to   netip.Addr
		}{
			{one.Pod, two.PodAddr(f)}, {one.Pod, lab.WorldAddr.Of(f)}, {one.Pod, two.Addr(lab.NodeNet, f)},
			{one.Host, two.Addr(lab.NodeNet, f)}, {one.Host, two.PodAddr(f)}, {one.Host, lab.WorldAddr.Of(f)},
		} {
			r, err := flow.from.Ping(flow.to, count)
			c.must(err)
			if r.Lost > 0 {
				t.Error(r)
			}
		}
	}
	after, err := one.Counts()
	c.must(err)
	got := after.Since(before)
	for _, w := range []struct {
		link     string
		from, to lab.Zone
	}{
		{lab.PodNet, lab.ZonePod, lab.ZonePod}, {lab.Ingress, lab.ZonePod, lab.ZoneWorld}, {lab.NodeNet, lab.ZonePod, lab.ZoneNode},
		{lab.NodeNet, lab.ZoneNode, lab.ZoneNode}, {lab.NodeNet, lab.ZoneNode, lab.ZonePod}, {lab.Mgmt, lab.ZoneNode, lab.ZoneWorld},
	} {
		for _, link := range lab.ClassLinks {
			want := uint64(0)
			if link == w.link {
				want = 2 * count
			}
			if n := got.Out(link, w.from, w.to); n != want {
				t.Errorf("%d packets from %s to %s left by %s, want %d", n, w.from, w.to, link, want)
			}
		}
	}
	c.routerSawNothing()
}
