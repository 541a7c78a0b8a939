package fibprobe

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/test/netns"
)

var (
	seed   = flag.Uint64("fib.seed", 0, "replay the one world of this seed")
	worlds = flag.Int("fib.worlds", 24, "how many random worlds to compare")
)

const flowsPerWorld = 150

// TestRandom compares the model with the kernel in random worlds, both lookups
// and both families. Each world is asked as it was made, and again with a link
// set down, for which the model is given the picture from before.
func TestRandom(t *testing.T) {
	t.Parallel()
	ns, far := netns.New(t), netns.New(t)
	router(t, ns)
	for _, link := range worldLinks {
		check(t, ns.Veth(link, far, link))
	}
	p := open(t, ns)
	seen := features{}
	seeds := []uint64{*seed}
	if *seed == 0 {
		seeds = seeds[:0]
		for i := range *worlds {
			seeds = append(seeds, uint64(1000+i))
		}
	}
	for _, s := range seeds {
		if !compareWorld(t, ns, far, p, s, seen) {
			break
		}
	}
	t.Logf("%d comparisons", seen["compared"])
	if *seed == 0 && !t.Failed() {
		seen.complete(t)
	}
}

// compareWorld reports whether to go on.
func compareWorld(t *testing.T, ns, far *netns.NS, p *Prober, s uint64, seen features) bool {
	t.Helper()
	random := rand.New(rand.NewPCG(s, 0))
	check(t, far.Up(worldLinks...))
	for i, link := range worldLinks {
		check(t, ns.Up(link))
		sysctl(t, ns, "ipv4/conf/"+link+"/ignore_routes_with_linkdown=0", "ipv6/conf/"+link+"/ignore_routes_with_linkdown=0")
		_ = ns.Addr(link, fmt.Sprintf("172.16.%d.1/24", i), fmt.Sprintf("fd01:%d::1/64", i))
	}
	settled(t, ns, "a3", true)
	makers := map[routing.Family]*world{}
	for _, f := range routing.Families {
		makers[f] = &world{Rand: random, family: f}
		batch(t, ns, f, true, populate(makers[f]))
	}
	// a3 has no carrier in half of the worlds, and that counts in half of those.
	carrier, ignored := random.IntN(2) == 0, false
	if !carrier {
		check(t, far.Down("a3"))
		if ignored = random.IntN(2) == 0; ignored {
			sysctl(t, ns, "ipv4/conf/a3/ignore_routes_with_linkdown=1", "ipv6/conf/a3/ignore_routes_with_linkdown=1")
		}
	}
	k := settled(t, ns, "a3", carrier)
	var options []fib.Option
	if ignored && random.IntN(2) == 0 {
		// The dump marks routes without carrier as dead where the sysctl says that
		// they are not used. The option must come to the same without the marks.
		for i := range k.Routes {
			k.Routes[i].Dead, k.Routes[i].LinkDown = false, false
		}
		options = append(options, fib.IgnoreLinkDown("a3"))
	}
	if !compare(t, p, s, k, fib.New(k, options...), makers, seen) {
		return false
	}
	down := worldLinks[random.IntN(len(worldLinks)-2)+2] // not one that packets arrive by
	check(t, ns.Down(down))
	k.Link(down).Up = false
	k.Link(down).Carrier = false
	return compare(t, p, s, k, fib.New(k, options...), makers, seen)
}

// populate clears the family's rules and tables and fills them anew.
func populate(w *world) []string {
	all := []string{"rule flush", "rule add priority 32766 lookup main", "rule add priority 32767 lookup default"}
	for _, table := range worldTables[1:] {
		all = append(all, "route flush table "+table)
	}
	all = append(all, "route flush table main proto boot")
	for i, a := range own(w.family) {
		link := "lo"
		if w.family == routing.IPv4 && i == 1 {
			link = "a2" // an IPv4 address stays ours when its link is down
		}
		all = append(all, fmt.Sprintf("addr replace %s/%d dev %s", a, a.BitLen(), link))
	}
	for range 4 + w.IntN(5) {
		all = append(all, w.rule())
	}
	for range 16 {
		all = append(all, w.routes()...)
	}
	return all
}

func compare(t *testing.T, p *Prober, s uint64, k *routing.Kernel, f *fib.FIB, makers map[routing.Family]*world, seen features) bool {
	t.Helper()
	for _, family := range routing.Families {
		for range flowsPerWorld {
			flow := makers[family].flow()
			for _, mode := range []fib.Mode{fib.BPF, fib.Stack} {
				if mode == fib.Stack && family == routing.IPv6 && flow.OIF != "" {
					// RTM_GETROUTE stands for a bound socket only without a source.
					flow.Src = netip.Addr{}
				}
				got, err := ask(p, flow, mode)
				if err == nil {
					err = Agree(flow, mode, f.Lookup(flow, mode), got)
				}
				trace := f.Trace(flow, mode)
				if err != nil {
					t.Errorf("seed %d, flow %+v: %v\n%s\n%s", s, flow, err, story(trace), picture(k, family))
					return false
				}
				seen.note(flow, mode, trace)
			}
		}
	}
	return true
}

func story(r fib.Result) string {
	var b strings.Builder
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "  rule %s: match %t: %s: %v beats %v\n", s.Rule, s.Match, s.Why, s.Route, s.Beat)
	}
	return b.String()
}

func picture(k *routing.Kernel, family routing.Family) string {
	var b strings.Builder
	for _, l := range k.Links {
		fmt.Fprintf(&b, "link %s up %t carrier %t\n", l.Name, l.Up, l.Carrier)
	}
	for _, r := range k.Rules {
		if r.Family == family {
			fmt.Fprintln(&b, "rule", r)
		}
	}
	for _, r := range k.Routes {
		if r.Family() == family && r.Table != routing.LocalID {
			fmt.Fprintln(&b, "route", r)
		}
	}
	return b.String()
}

// features counts what the comparisons exercised.
type features map[string]int

func (s features) note(flow fib.Flow, mode fib.Mode, r fib.Result) {
	family := routing.FamilyOf(flow.Dst)
	count := func(what string) { s[fmt.Sprintf("%s %s: %s", family, mode, what)]++ }
	s["compared"]++
	count(r.Action.String())
	for _, step := range r.Steps {
		selector := ""
		switch {
		case !step.Match && step.Rule.Invert:
			selector = "not"
		case !step.Match:
			selector, _, _ = strings.Cut(step.Why, " ")
		}
		if selector != "" {
			count("fails " + selector)
			continue
		}
		count("rule " + step.Rule.Action.String())
		if step.Rule.Invert {
			count("matches not")
		}
		why, _, _ := strings.Cut(step.Why, ";")
		why, _, _ = strings.Cut(why, ":")
		count(why)
		if strings.Contains(step.Why, "passed over") {
			count("passed over a route")
		}
		if strings.Contains(step.Why, "taken to be on it") {
			count("assumed on link")
		}
		if step.Route == nil {
			continue
		}
		count("route " + step.Route.Type.String())
		for _, b := range step.Beat {
			if b.Dst == step.Route.Dst && b.Metric > step.Route.Metric {
				count("beats a higher metric")
			}
			if b.Dst.Bits() < step.Route.Dst.Bits() {
				count("beats a shorter prefix")
			}
		}
	}
}

// complete fails for a feature that no comparison exercised.
func (s features) complete(t *testing.T) {
	t.Helper()
	want := []string{
		"no route", "forward", "local", "unreachable", "blackhole", "prohibit",
		"fails not", "fails source", "fails no", "fails destination", "fails arrives", "fails bound", "fails mark",
		"matches not", "rule lookup", "rule unreachable", "rule blackhole", "rule prohibit", "rule goto", "rule nop",
		"goes on there", "there is no later rule of that priority",
		"decides", "the table has no route there", "the table is empty",
		"route unicast", "route local", "route unreachable", "route blackhole", "route prohibit", "route throw",
		"beats a higher metric", "beats a shorter prefix", "passed over a route",
	}
	for _, f := range routing.Families {
		for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
			all := slices.Clone(want)
			if f == routing.IPv6 && mode == fib.BPF {
				all = append(all, "bpf_fib_lookup ends at a throw route in IPv6")
			} else {
				all = append(all, "throws the packet to the next rule", "suppressed")
			}
			if f == routing.IPv4 && mode == fib.Stack {
				all = append(all, "assumed on link")
			}
			for _, what := range all {
				if key := fmt.Sprintf("%s %s: %s", f, mode, what); s[key] == 0 {
					t.Errorf("never exercised: %s", key)
				}
			}
		}
	}
}
