package sim

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// checkPackets compares where packets of pods go with where their class wants
// them, as far as the world allows.
func (w *world) checkPackets(k *routing.Kernel) {
	index := fib.New(k)
	for _, f := range routing.Families {
		pod := flows(f)[0]
		for _, dst := range w.destinations(f) {
			pod.Dst = dst
			want := w.expect(k, f, dst)
			if want == nil {
				continue
			}
			for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
				got := text(index.Lookup(pod, mode))
				if !slices.Contains(want, got) {
					w.violated(8, "%s goes %s (%s), and should go %v", flowText(pod), got, mode, want)
				}
			}
		}
	}
}

func text(r fib.Result) string {
	if r.Action != fib.Forward {
		return r.Action.String()
	}
	if !r.Route.Via.IsValid() {
		return "by " + r.Route.Link
	}
	return fmt.Sprintf("by %s via %s", r.Route.Link, r.Route.Via)
}

// expect says where a packet of a pod may go; nil: no matter.
func (w *world) expect(k *routing.Kernel, f routing.Family, dst netip.Addr) []string {
	t := w.config.Tables[0]
	if w.contested || !w.listed.Synced || w.listed.Node(self) == nil || w.blocked(k, t.ID) {
		return nil
	}
	usable := func(link string) bool {
		l := k.Link(link)
		return l.Usable() && slices.ContainsFunc(l.Addrs, func(a routing.LinkAddr) bool {
			return routing.FamilyOf(a.Prefix.Addr()) == f && a.Usable() && !a.Prefix.Addr().IsLinkLocalUnicast()
		})
	}
	covers := func(link string, a netip.Addr) bool {
		return usable(link) && slices.ContainsFunc(k.Link(link).Addrs, func(la routing.LinkAddr) bool {
			return la.Usable() && la.Prefix.Masked().Contains(a) && la.Prefix.Addr() != a
		})
	}
	stop := fib.Unreachable.String()
	for _, n := range w.listed.Nodes {
		if !slices.ContainsFunc(n.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(dst) }) {
			continue
		}
		if n.Name == self {
			if l := k.Link("cilium_host"); l != nil && l.Up && !(l.NoIPv6 && f == routing.IPv6) {
				return []string{"by cilium_host"}
			}
			return nil // a throw: main, or for eBPF nothing
		}
		nd := w.node(n.Name)
		if nd == nil {
			return nil
		}
		cidr := n.PodCIDRs[slices.IndexFunc(n.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(dst) })]
		v := w.pathOf(nd, cidr)
		hop := podAddr(nd.n, f)
		if !covers("pod0", hop) {
			v = no
		}
		if fb := t.Routes.Peers.Fallback; w.drained("pod0", routing.DrainPaths) && (fb.Main || fb.Link == "node0" && covers("node0", nodeAddr(nd.n, f))) {
			v = no
		}
		var ways []string
		if v != no {
			ways = append(ways, "by pod0 via "+hop.String())
		}
		if v != yes {
			switch fb := t.Routes.Peers.Fallback; {
			case fb.Main:
				return nil
			case fb.Link == "node0" && covers("node0", nodeAddr(nd.n, f)):
				ways = append(ways, "by node0 via "+nodeAddr(nd.n, f).String())
			default:
				ways = append(ways, stop)
			}
		}
		return ways
	}
	for _, h := range hosts() {
		for _, net := range networks(k.Link(h.name), f) {
			if h.name != "cilium_host" && net.Contains(dst) {
				if usable(h.name) {
					return []string{"by " + h.name}
				}
				return []string{stop}
			}
		}
	}
	_, fences := w.demands(k, f)
	for _, net := range fences[t.ID] {
		if net.Contains(dst) {
			return []string{stop}
		}
	}
	if dst != addr("192.0.2.1") && dst != addr("2001:db8::1") {
		return nil
	}
	gw := addr("10.47.0.254")
	if f == routing.IPv6 {
		gw = addr("fd00:47::fe")
	}
	if w.fighting() {
		return nil // no default beside a fence that somebody takes out again and again
	}
	if !w.known(k, f) {
		return nil // not every network can be fenced
	}
	if w.drained("ingress0", routing.DrainDefault) && !w.draining.KeepEgress {
		return nil // as without us
	}
	if covers("ingress0", gw) {
		return []string{"by ingress0 via " + gw.String()}
	}
	if t.Routes.Default.OnLinkDown == routing.LinkDownHold {
		return []string{stop}
	}
	return nil
}

// fighting reports whether somebody undoes what the daemon does.
func (w *world) fighting() bool {
	return slices.ContainsFunc(w.engine.State().Conditions, func(c routing.Condition) bool { return c.Reason == "Fight" })
}

// known reports whether the network of every gateway-less link is, so that it
// can be fenced.
func (w *world) known(k *routing.Kernel, f routing.Family) bool {
	for _, link := range w.gatewayless() {
		if len(networks(k.Link(link), f)) == 0 && !slices.ContainsFunc(w.memory[link], func(p netip.Prefix) bool { return routing.FamilyOf(p.Addr()) == f }) {
			return false
		}
	}
	return true
}

// blocked reports whether somebody else's objects stand where ours would, or
// before them.
func (w *world) blocked(k *routing.Kernel, id routing.TableID) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool { return r.Table == id && r.Protocol != ours }) ||
		slices.ContainsFunc(k.Rules, func(r routing.Rule) bool {
			return r.Priority > 0 && r.Priority < 1010 && r.Protocol != ours && !r.L3MDev && !r.Opaque
		})
}
