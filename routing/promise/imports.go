package promise

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// What a router tells of and the configuration takes in lies behind that router,
// like the world. A packet to it may go there, a class may carry it by that link,
// and where none does nothing is promised.

// imports reports whether some router is to tell of a named network.
func (v *View) imports(network string) bool { return len(v.importers(network)) > 0 }

// importers returns the links of the routers that are to tell of a named network.
func (v *View) importers(network string) (links []string) {
	if v.Config.BGP == nil {
		return nil
	}
	for i := range v.Config.BGP.Upstreams {
		u := &v.Config.BGP.Upstreams[i]
		if slices.ContainsFunc(u.Import, func(in routing.Import) bool { return slices.Contains(in.Networks, network) }) {
			links = append(links, u.Link)
		}
	}
	return links
}

// importedAs returns the network that a router is to tell of and that holds an
// address; empty: none does. What nodes, pods and links have is the cluster's, and
// what classes carry between nodes and pods, whatever lies around it.
func (v *View) importedAs(a netip.Addr) string {
	name := ""
	for i := range v.Config.Networks {
		n := &v.Config.Networks[i]
		switch {
		case !within(n.Prefixes, a):
		case v.imports(n.Name):
			name = n.Name
		case slices.Contains(v.inner, n.Name):
			return ""
		}
	}
	if name == "" || v.nodes[a] != "" || v.onLink(a) || v.podAddress(a) {
		return ""
	}
	return name
}

// beyond reports whether an address is behind a router: one of the world, or of a
// network that a router is to tell of.
func (v *View) beyond(a netip.Addr) bool { return v.outside(a) || v.importedAs(a) != "" }

// far reports whether a network is behind routers.
func (v *View) far(network string) bool { return network == routing.World || v.imports(network) }

// importTargets lists an address of each prefix that a router tells of in a network,
// in one family; where none does, one of the network.
func (v *View) importTargets(network string, f routing.Family) (targets []*target) {
	prefixes := v.network(network, f)
	for i := range v.Plan.Routes {
		r := &v.Plan.Routes[i]
		if r.Metric == routing.MetricImport && r.Family() == f && slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return covers(p, r.Dst) }) {
			targets = append(targets, &target{what: "an address of " + network, addr: v.host(r.Dst)})
		}
	}
	if len(targets) == 0 {
		targets = append(targets, &target{what: "an address of " + network, addr: v.host(prefixes[0])})
	}
	return targets
}

// misled says that a packet leaves by what a router tells of on another link than
// the class's; empty: it does not.
func (v *View) misled(c *routing.Class, a routing.Answer, model *fib.Result) string {
	r := &model.Route
	if r.Metric != routing.MetricImport || !v.Plan.Own.HasRoute(r) || a.Outcome != routing.OutcomeForward || a.Link != r.Link || a.Link == c.Link {
		return ""
	}
	return fmt.Sprintf("leaves by %s, where a router tells of %s, not %s%s", a, r.Dst, c.Link, by(model, a))
}
