package sim

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// wrong is one way in which a picture of the kernel breaks an invariant.
type wrong struct {
	inv   int
	table routing.TableID
	net   netip.Prefix // that is to be guarded or fenced
	flow  fib.Flow
	mode  fib.Mode

	imported bool // by what a router has announced
}

func (x wrong) String() string {
	switch {
	case x.inv == 2:
		return fmt.Sprintf("a default in table %d without the fence of %s", x.table, x.net)
	case x.imported:
		return fmt.Sprintf("%s to %s is imported from a router (%s)", flowText(x.flow), x.net, x.mode)
	case x.inv == 3:
		return fmt.Sprintf("%s, which no rule selects, is looked up otherwise (%s)", flowText(x.flow), x.mode)
	case x.table != 0:
		return fmt.Sprintf("%s to the fenced %s leaves table %d by its default (%s)", flowText(x.flow), x.net, x.table, x.mode)
	}
	return fmt.Sprintf("%s to the guarded %s by a less specific route (%s)", flowText(x.flow), x.net, x.mode)
}

func flowText(f fib.Flow) string {
	s := f.Dst.String()
	if f.Src.IsValid() {
		s += " from " + f.Src.String()
	}
	if f.IIF != "" {
		s += " iif " + f.IIF
	}
	if f.OIF != "" {
		s += " oif " + f.OIF
	}
	return s
}

// demands are the networks that are to be guarded, and those that the fence of
// each table must cover before it may have a default, for a picture of the
// kernel: the named networks and those of the class links that lead to no router.
func (w *world) demands(k *routing.Kernel, f routing.Family) (guard []netip.Prefix, fence map[routing.TableID][]netip.Prefix) {
	c := w.inForce
	add := func(to, from []netip.Prefix) []netip.Prefix {
		for _, p := range from {
			if routing.FamilyOf(p.Addr()) == f && !slices.Contains(to, p) {
				to = append(to, p)
			}
		}
		return to
	}
	var inner []netip.Prefix
	for _, link := range w.gatewayless() {
		now := networks(k.Link(link), f)
		if len(now) == 0 {
			now = w.memory[link]
		}
		inner = add(inner, now)
	}
	if c.Guard != nil {
		for _, name := range c.Guard.Networks {
			if w.served(k, name) {
				guard = add(guard, c.Network(name))
			}
		}
		guard = add(guard, inner)
	}
	fence = map[routing.TableID][]netip.Prefix{}
	for id, names := range w.owned {
		var nets []netip.Prefix
		for _, name := range names {
			nets = add(nets, c.Network(name))
		}
		fence[id] = add(nets, inner)
	}
	return guard, fence
}

// gatewayless are the class links that carry nothing to or from the world.
func (w *world) gatewayless() []string {
	gateway := map[string]bool{}
	var links []string
	for _, c := range w.config.Classes {
		gateway[c.Link] = gateway[c.Link] || c.Gateway()
		if !c.Delegated && !slices.Contains(links, c.Link) {
			links = append(links, c.Link)
		}
	}
	return slices.DeleteFunc(links, func(l string) bool { return gateway[l] })
}

// served reports whether the node has, or had, a link for a network's class.
func (w *world) served(k *routing.Kernel, name string) bool {
	asked := false
	for _, c := range w.config.Classes {
		for _, t := range c.Traffic {
			if t.To == name {
				asked = true
				if k.Link(c.Link) != nil || len(w.memory[c.Link]) > 0 {
					return true
				}
			}
		}
	}
	return !asked
}

func networks(l *routing.Link, f routing.Family) []netip.Prefix {
	var nets []netip.Prefix
	if l == nil {
		return nil
	}
	for _, a := range l.Addrs {
		p := a.Prefix
		if routing.FamilyOf(p.Addr()) == f && !p.Addr().IsLinkLocalUnicast() && !p.IsSingleIP() && !slices.Contains(nets, p.Masked()) {
			nets = append(nets, p.Masked())
		}
	}
	return nets
}

// remember keeps what the daemon has seen of the class links' networks.
func (w *world) remember(k *routing.Kernel) {
	for _, link := range w.gatewayless() {
		for _, f := range routing.Families {
			if now := networks(k.Link(link), f); len(now) > 0 {
				w.memory[link] = append(slices.DeleteFunc(slices.Clone(w.memory[link]), func(p netip.Prefix) bool {
					return routing.FamilyOf(p.Addr()) == f
				}), now...)
			}
		}
	}
}

// wrongs lists how a picture breaks invariants 1 to 3 in one family, each with
// the route that does.
func (w *world) wrongs(k *routing.Kernel, index *fib.FIB, f routing.Family) map[wrong]routing.Route {
	bad := map[wrong]routing.Route{}
	guard, fences := w.demands(k, f)
	for id, nets := range fences {
		if !hasDefault(k, id, f) {
			continue
		}
		for _, net := range nets {
			if !fenced(k, id, net) {
				bad[wrong{inv: 2, table: id, net: net}] = routing.Route{}
			}
		}
	}
	bare := w.bareAnswers(f)
	asRules := w.inForce.Guard != nil && w.inForce.Guard.AsRules
	n := 0
	for _, flow := range flows(f) {
		for _, dst := range w.destinations(f) {
			flow.Dst = dst
			for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
				r := index.Lookup(flow, mode)
				if b := bare[n]; !b.selected && (r.Action != b.Action || r.Route != b.Route) && !cutOff(r, b.Result) {
					bad[wrong{inv: 3, flow: flow, mode: mode}] = r.Route
				}
				n++
				if r.Action != fib.Forward {
					continue
				}
				if net := w.clusters(k, f, dst); net.IsValid() && r.Route.Metric == routing.MetricImport && r.Route.Protocol == ours {
					bad[wrong{inv: 1, net: net, flow: flow, mode: mode, imported: true}] = r.Route
				}
				bits := r.Route.Dst.Bits()
				names, own := fences[r.Route.Table]
				// eBPF's lookup ignores suppress_prefixlength in IPv6: the guard
				// as rules does not reach there.
				if (own || r.Route.Table == routing.MainID) && !(asRules && f == routing.IPv6 && mode == fib.BPF) {
					for _, g := range guard {
						if own && !slices.Contains(names, g) {
							continue // guarded in main, and left out of this fence by configuration
						}
						if bits < g.Bits() && g.Contains(dst) {
							bad[wrong{inv: 1, net: g, flow: flow, mode: mode}] = r.Route
						}
					}
				}
				if own && bits == 0 {
					for _, net := range names {
						if net.Contains(dst) {
							bad[wrong{inv: 1, table: r.Route.Table, net: net, flow: flow, mode: mode}] = r.Route
						}
					}
				}
			}
		}
	}
	return bad
}

// clusters returns the network of the cluster, or of a link, that an address lies
// in.
func (w *world) clusters(k *routing.Kernel, f routing.Family, a netip.Addr) netip.Prefix {
	var nets []netip.Prefix
	for _, name := range []string{"pods", "nodes", "services", "loadBalancers"} {
		nets = append(nets, w.inForce.Network(name)...)
	}
	for i := range k.Links {
		nets = append(nets, networks(&k.Links[i], f)...)
	}
	for _, net := range nets {
		if net.Contains(a) {
			return net
		}
	}
	return netip.Prefix{}
}

// cutOff reports whether an answer differs from the one without us only because
// a guard stops what would have gone by a less specific route, or nowhere.
func cutOff(with, without fib.Result) bool {
	var g netip.Prefix
	switch {
	case with.Action != fib.Unreachable:
		return false
	case with.Route.Protocol == ours && with.Route.Table == routing.MainID && with.Route.Metric == routing.MetricGuard:
		g = with.Route.Dst
	case with.Rule.Protocol == ours && with.Rule.Action == routing.ActionUnreachable && with.Rule.IIF == "" && with.Rule.Priority != strayPriority:
		g = with.Rule.To
	default:
		return false
	}
	return without.Action == fib.NoRoute || without.Route.Dst.Bits() < g.Bits()
}

// answer is a lookup in the kernel without anything of ours.
type answer struct {
	fib.Result
	selected bool
}

// sight is what is known of the kernel as it is now.
type sight struct {
	foreignRoutes []routing.Route
	foreignRules  []routing.Rule
	wrongs        routing.PerFamily[map[wrong]routing.Route]
}

// seeBoth returns what is known of the kernel, looked up anew when the world has
// changed.
func (w *world) seeBoth() *sight {
	if w.sight != nil {
		return w.sight
	}
	k := w.kernel.Picture()
	w.bare = [7][]answer{}
	s := &sight{foreignRoutes: foreignRoutes(k), foreignRules: foreignRules(k)}
	index := fib.New(k)
	for _, f := range routing.Families {
		s.wrongs.Set(f, w.wrongs(k, index, f))
	}
	w.sight = s
	return s
}

// bareAnswers looks every flow up in the kernel without us.
func (w *world) bareAnswers(f routing.Family) []answer {
	if w.bare[f] != nil {
		return w.bare[f]
	}
	k := w.kernel.Picture()
	index := fib.New(&routing.Kernel{Links: k.Links, Routes: foreignRoutes(k), Rules: foreignRules(k)})
	var all []answer
	for _, flow := range flows(f) {
		for _, dst := range w.destinations(f) {
			flow.Dst = dst
			sel := slices.ContainsFunc(w.configs, func(c *routing.Config) bool { return selected(c, flow) })
			for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
				all = append(all, answer{index.Lookup(flow, mode), sel})
			}
		}
	}
	w.bare[f] = all
	return all
}
