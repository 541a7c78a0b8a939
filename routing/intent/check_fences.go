package intent

import (
	"net/netip"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// checkFences looks at what fences and guard would let through that they should
// stop, and stop that they should let through.
func (r *reader) checkFences() {
	for i := range r.config.Tables {
		t, place := &r.config.Tables[i], &r.tables[i]
		r.checkStopped(t.Fence, place.fence, "fence")
		if t.Routes.Default == nil || t.Name == routing.MainTable {
			continue
		}
		var open []string
		for _, set := range clusterSets {
			if prefixes := r.config.Network(set); len(prefixes) > 0 && !r.covered(prefixes, t.Fence) {
				open = append(open, set)
			}
		}
		if len(open) > 0 {
			place.def.Warnf("table %s has a default but no fence for %s: without a route of their own they go to the router", t.Name, strings.Join(open, ", "))
		}
	}
	if r.config.Guard != nil {
		r.checkStopped(r.config.Guard.Networks, r.guard, "guard")
		for _, name := range r.config.Guard.Networks {
			if r.config.Guard.AsRules && r.has(name, routing.IPv6) {
				r.guard.Warnf("guard: as: rules: an eBPF datapath does not obey these for the IPv6 of %s; where one forwards pods' packets, use as: routes", name)
			}
			if name == "services" || name == "loadBalancers" {
				r.guard.Warnf("guard: %s: a node's own connection to such an address is looked up before it is translated, and would stop here; fence it instead", name)
			}
		}
	}
}

// checkStopped reports gateways that lie inside a fenced or guarded network.
// The network of a class's link is fenced as connected and so stays reachable;
// that of another link would not.
func (r *reader) checkStopped(networks []string, node *strictyaml.Node, what string) {
	for _, name := range networks {
		for _, p := range r.config.Network(name) {
			for _, g := range r.gateways {
				for _, a := range []netip.Addr{g.ref.IPv4.Addr, g.ref.IPv6.Addr} {
					if a.IsValid() && p.Contains(a) && !r.classLink(g.link) {
						node.Errorf("%s: %s (%s) contains the gateway %s of %s, whose link %s no class has; name narrower networks, or give %s a class",
							what, name, p, a, g.what, g.link, g.link)
					}
				}
			}
		}
	}
}

func (r *reader) classLink(link string) bool {
	for i := range r.config.Classes {
		if r.config.Classes[i].Link == link {
			return true
		}
	}
	return false
}
