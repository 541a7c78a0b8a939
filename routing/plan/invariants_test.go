package plan_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/routing/plan"
)

var destinations = []netip.Addr{
	addr("10.244.1.5"), addr("10.244.2.5"), addr("10.244.3.5"), addr("10.244.4.5"), addr("10.244.9.5"), addr("10.244.200.5"),
	addr("10.46.0.2"), addr("10.46.0.99"), addr("10.48.0.2"), addr("10.48.0.99"), addr("10.49.0.2"),
	addr("10.96.0.10"), addr("10.47.64.9"), addr("10.40.0.2"), addr("10.47.0.9"), addr("192.0.2.1"),
	addr("fd00:10:244:1::5"), addr("fd00:10:244:2::5"), addr("fd00:10:244:3::5"), addr("fd00:10:244:4::5"), addr("fd00:10:244:9::5"),
	addr("fd00:46::2"), addr("fd00:46::99"), addr("fd00:48::2"), addr("fd00:48::99"), addr("fd00:49::2"),
	addr("fd00:10:96::10"), addr("fd00:47:64::9"), addr("fd00:40::2"), addr("fd00:47::9"), addr("2001:db8::1"),
}

// sources are a pod, a VIP's reply, the host itself and a host's socket.
func sources(f routing.Family) []fib.Flow {
	if f == routing.IPv4 {
		return []fib.Flow{
			{Src: addr("10.244.1.7"), IIF: "cilium_host"}, {Src: addr("10.47.64.9"), IIF: "cilium_host"},
			{}, {Src: addr("10.46.0.1")}, {Src: addr("192.0.2.9"), IIF: "ingress0"},
		}
	}
	return []fib.Flow{
		{Src: addr("fd00:10:244:1::7"), IIF: "cilium_host"}, {Src: addr("fd00:47:64::9"), IIF: "cilium_host"},
		{}, {Src: addr("fd00:46::1")}, {Src: addr("2001:db8::9"), IIF: "ingress0"},
	}
}

// guarded is what a plan guards.
func guarded(p *routing.Plan) []netip.Prefix {
	var ps []netip.Prefix
	for _, r := range p.Routes {
		if r.Metric == routing.MetricGuard {
			ps = append(ps, r.Dst)
		}
	}
	for _, r := range p.Rules {
		if r.SuppressPrefixLen != routing.NoSuppress {
			ps = append(ps, r.To)
		}
	}
	return ps
}

// fenced is what the fence of a table must cover before there is a default:
// the named networks and those of every class link without a gateway.
func fenced(w *world, p *routing.Plan, t *routing.Table, f routing.Family) []netip.Prefix {
	var ps []netip.Prefix
	for _, name := range t.Fence {
		ps = append(ps, w.Config.Network(name)...)
	}
	for i := range w.Config.Classes {
		if c := &w.Config.Classes[i]; !c.Gateway() {
			ps = append(ps, p.Links[c.Link]...)
		}
	}
	return slices.DeleteFunc(ps, func(p netip.Prefix) bool { return routing.FamilyOf(p.Addr()) != f })
}

// broken lists how a picture of the kernel breaks the invariants of a plan.
func broken(w *world, p *routing.Plan, k *routing.Kernel) map[string]bool {
	bad := make(map[string]bool)
	asRules := w.Config.Guard != nil && w.Config.Guard.AsRules
	index := fib.New(k)
	for _, f := range routing.Families {
		for i := range w.Config.Tables {
			t := &w.Config.Tables[i]
			if t.Fence == nil || !hasDefault(k, t.ID, f) {
				continue
			}
			for _, net := range fenced(w, p, t, f) {
				want := routing.Route{Table: t.ID, Dst: net, Metric: routing.MetricFence, Type: routing.Unreachable, Protocol: routing.ProtocolNetclass}
				if !slices.Contains(k.Routes, want) {
					bad[fmt.Sprintf("2: a default in table %d without the fence of %s", t.ID, net)] = true
				}
			}
		}
		for _, dst := range destinations {
			if routing.FamilyOf(dst) != f {
				continue
			}
			for _, flow := range sources(f) {
				flow.Dst = dst
				for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
					r := index.Lookup(flow, mode)
					if r.Action != fib.Forward {
						continue
					}
					if net := clusters(w, p, dst); net.IsValid() && r.Route.Metric == routing.MetricImport {
						bad[fmt.Sprintf("1: %v %+v to %s of the cluster by %s", mode, flow, net, r.Route)] = true
					}
					for _, g := range guarded(p) {
						// eBPF's lookup ignores suppress_prefixlength in IPv6: there
						// the guard as rules does not reach.
						if asRules && f == routing.IPv6 && mode == fib.BPF {
							break
						}
						if g.Contains(dst) && r.Route.Dst.Bits() < g.Bits() {
							bad[fmt.Sprintf("1: %v %+v to guarded %s by %s", mode, flow, g, r.Route)] = true
						}
					}
					for i := range w.Config.Tables {
						t := &w.Config.Tables[i]
						if t.Fence == nil || r.Route.Table != t.ID || r.Route.Dst.Bits() != 0 {
							continue
						}
						for _, net := range fenced(w, p, t, f) {
							if net.Contains(dst) {
								bad[fmt.Sprintf("1: %v %+v to fenced %s by %s", mode, flow, net, r.Route)] = true
							}
						}
					}
				}
			}
		}
	}
	return bad
}

// clusters returns the network of the cluster, or of a class link, that an address
// lies in.
func clusters(w *world, p *routing.Plan, a netip.Addr) netip.Prefix {
	var nets []netip.Prefix
	for _, name := range []string{"pods", "services", "nodes", "loadBalancers"} {
		nets = append(nets, w.Config.Network(name)...)
	}
	for _, of := range p.Links {
		nets = append(nets, of...)
	}
	for _, net := range nets {
		if net.Contains(a) {
			return net
		}
	}
	return netip.Prefix{}
}

func hasDefault(k *routing.Kernel, id routing.TableID, f routing.Family) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
		return r.Table == id && r.Dst == f.Default() && r.Type == routing.Unicast && r.Protocol == routing.ProtocolNetclass
	})
}

// untouched compares what no rule of ours selects with a kernel that has nothing
// of ours: it may be stopped by the guard, and go nowhere else.
func untouched(k *routing.Kernel) string {
	bare := *k
	bare.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r routing.Route) bool { return r.Protocol == routing.ProtocolNetclass })
	bare.Rules = slices.DeleteFunc(slices.Clone(k.Rules), func(r routing.Rule) bool { return r.Protocol == routing.ProtocolNetclass })
	with, without := fib.New(k), fib.New(&bare)
	for _, dst := range destinations {
		for _, flow := range sources(routing.FamilyOf(dst))[2:] {
			flow.Dst = dst
			for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
				a, b := with.Lookup(flow, mode), without.Lookup(flow, mode)
				if a.Action != fib.Unreachable && (a.Action != b.Action || a.Route != b.Route) {
					return fmt.Sprintf("3: %v %+v by %s, without us by %s", mode, flow, a.Route, b.Route)
				}
			}
		}
	}
	return ""
}

// foreign checks that an op touches nothing that is not ours.
func foreign(k *routing.Kernel, op routing.Op) string {
	if op.IsRule() {
		if op.Rule.Protocol != routing.ProtocolNetclass || op.Verb == routing.Add && slices.Contains(k.Rules, op.Rule) ||
			op.Verb != routing.Add && !slices.Contains(k.Rules, op.Rule) {
			return "4: " + op.String()
		}
		return ""
	}
	at := slices.DeleteFunc(slices.Clone(k.Routes), func(r routing.Route) bool { return r.Key() != op.Route.Key() })
	for _, r := range at {
		if r.Protocol != routing.ProtocolNetclass && op.Verb != routing.Delete {
			return fmt.Sprintf("4: %s where there is %s of protocol %d", op, r, r.Protocol)
		}
	}
	mine := slices.ContainsFunc(at, func(r routing.Route) bool { return r.Protocol == routing.ProtocolNetclass })
	if op.Route.Protocol != routing.ProtocolNetclass || mine != (op.Verb != routing.Add) {
		return "4: " + op.String()
	}
	return ""
}

// scope is what a failed op stops: the later stages of its table and family.
type scope struct {
	table  routing.TableID
	family routing.Family
}

func scopeOf(op routing.Op) scope {
	if op.IsRule() && op.Table() == 0 {
		return scope{routing.MainID, op.Family()}
	}
	return scope{op.Table(), op.Family()}
}

// Whatever happens, and wherever a pass is cut off or an op fails, no op makes
// an invariant worse, a pass that goes through leaves none broken, and the next
// one on the same inputs writes nothing.
func TestInvariantsAtEveryOp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		for step := range 1 + c.draw("steps", 5) {
			if step > 0 {
				c.step()
			}
			p := c.make()
			ops := plan.Diff(p, c.Kernel)
			fail := map[int]bool{}
			end := len(ops)
			if len(ops) > 0 {
				switch c.draw("trouble", 4) {
				case 0:
					fail[c.draw("failed op", len(ops))] = true
				case 1:
					end = c.draw("crash before", len(ops))
				}
			}
			before := broken(c.world, p, c.Kernel)
			stopped := map[scope]routing.Stage{}
			for i, op := range ops[:end] {
				if p.Hold != "" && op.Verb == routing.Delete && !slices.Contains(p.Unsafe, op.Route.Key()) && !(op.IsRule() && op.Rule.Action == routing.ActionUnreachable) {
					t.Fatalf("deleted while held: %s", op)
				}
				if s, ok := stopped[scopeOf(op)]; ok && op.Stage > s {
					continue
				}
				if _, ok := stopped[scope{routing.MainID, op.Family()}]; ok && op.Throws() {
					continue
				}
				if fail[i] {
					stopped[scopeOf(op)] = op.Stage
					continue
				}
				if why := foreign(c.Kernel, op); why != "" {
					t.Fatalf("%s\n%s", why, opsText(ops))
				}
				c.Kernel = applied(c.Kernel, op)
				after := broken(c.world, p, c.Kernel)
				for b := range after {
					if !before[b] {
						t.Fatalf("%s\nafter %s: %s\nof\n%s\nfailed: %v\n%s\n%s", b, op.Stage, op, opsText(ops), fail, said(p), kernelText(c.Kernel))
					}
				}
				before = after
				if why := untouched(c.Kernel); why != "" {
					t.Fatalf("%s\nafter %s", why, op)
				}
			}
			if end < len(ops) || len(fail) > 0 {
				c.remember(p)
				continue
			}
			if len(before) > 0 && p.Hold == "" && !c.meddled {
				t.Fatalf("broken at the end: %v\n%s\n%s", before, said(p), kernelText(c.Kernel))
			}
			c.remember(p)
			if again := plan.Diff(p, c.Kernel); len(again) != 0 {
				t.Fatalf("the plan is not reached:\n%s", opsText(again))
			}
			if again := plan.Diff(c.make(), c.Kernel); len(again) != 0 {
				t.Fatalf("a second pass writes:\n%s\nafter\n%s", opsText(again), opsText(ops))
			}
		}
		for _, op := range plan.Flush(c.make().Own, c.Kernel) {
			if why := foreign(c.Kernel, op); why != "" {
				t.Fatalf("flush: %s", why)
			}
			c.Kernel = applied(c.Kernel, op)
			if why := untouched(c.Kernel); why != "" {
				t.Fatalf("flush: %s\nafter %s", why, op)
			}
		}
		for _, r := range c.Kernel.Routes {
			if r.Protocol == routing.ProtocolNetclass {
				t.Fatalf("flush leaves %s", r)
			}
		}
	})
}

// While a flush goes on, what is left is still fenced and guarded.
func TestFlushIsSafeAtEveryOp(t *testing.T) {
	for _, asRules := range []bool{false, true} {
		w := seed()
		w.Config.Guard.AsRules = asRules
		p := w.settle()
		k := w.Kernel
		for _, op := range plan.Flush(p.Own, k) {
			k = applied(k, op)
			if op.Stage >= routing.StageDropGuard {
				break
			}
			for b := range broken(w, p, k) {
				t.Errorf("%s\nafter %s", b, op)
			}
		}
	}
}

func kernelText(k *routing.Kernel) string {
	var b strings.Builder
	for _, l := range k.Links {
		fmt.Fprintf(&b, "%s up=%v carrier=%v %v\n", l.Name, l.Up, l.Carrier, l.Addrs)
	}
	for _, r := range k.Rules {
		b.WriteString(r.Family.String() + " " + r.String() + "\n")
	}
	for _, r := range k.Routes {
		fmt.Fprintf(&b, "%s proto %d\n", r, r.Protocol)
	}
	return b.String()
}

// The same inputs give the same plan, in whatever order they are told where
// their order means nothing.
func TestMakeIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		for range c.draw("steps", 4) {
			c.step()
			if c.draw("settle", 2) == 0 {
				c.settle()
			}
		}
		p := c.make()
		if !reflect.DeepEqual(p, c.make()) {
			t.Fatal("two plans of one world")
		}
		inv := *c.Inventory
		inv.Nodes = rapid.Permutation(inv.Nodes).Draw(t, "nodes")
		k := *c.Kernel
		k.Links = rapid.Permutation(k.Links).Draw(t, "links")
		c.Peerings = rapid.Permutation(c.Peerings).Draw(t, "peerings")
		c.Inventory, c.Kernel = &inv, &k
		q := c.make()
		for _, f := range routing.Families {
			if d := changes(p, q, f) + changes(q, p, f); d != "" {
				t.Fatalf("another order, another plan:\n%s", d)
			}
		}
		if (p.Speak == nil) != (q.Speak == nil) || p.Speak != nil && spoken(p) != spoken(q) || announced(p) != announced(q) {
			t.Fatal("another order, another order to the speaker")
		}
		if a, b := opsText(plan.Diff(p, c.Kernel)), opsText(plan.Diff(q, c.Kernel)); a != b {
			t.Fatalf("another order, other ops:\n%s\n%s", a, b)
		}
	})
}

// The guard fails while the own link goes: without the guard a throw would hand
// to main's default what the fence stops until then.
func TestFailedGuardStopsThrows(t *testing.T) {
	w := seed()
	w.settle()
	w.Kernel.Routes = slices.DeleteFunc(w.Kernel.Routes, func(r routing.Route) bool { return r.Metric == routing.MetricGuard })
	w.removeLink("cilium_host")
	throws := 0
	for _, op := range plan.Diff(w.make(), w.Kernel) {
		if op.Throws() {
			throws++
		}
		if op.Throws() != (op.Verb != routing.Delete && op.Route.Type == routing.Throw) || op.Throws() && op.Stage <= routing.StageGuard {
			t.Errorf("%s: %s", op.Stage, op)
		}
	}
	if throws != 2 {
		t.Errorf("%d throws, want 2", throws)
	}
}
