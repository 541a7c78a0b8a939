package intent

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// checkImports reports imports into tables that do not exist, and networks that no
// router must be asked about: the fence and the guard would let through what an
// import leads to.
func (r *reader) checkImports() {
	names := make([]string, 0, len(r.config.Tables))
	for _, t := range r.config.Tables {
		names = append(names, t.Name)
	}
	for _, use := range r.tableUses {
		if table := use.Text(""); !slices.Contains(names, table) {
			use.Errorf("undefined table %q%s", table, strictyaml.DidYouMean(table, names))
		}
	}
	sets := slices.Clone(clusterSets)
	for i := range r.config.Tables {
		sets = append(sets, r.config.Tables[i].Fence...)
	}
	if r.config.Guard != nil {
		sets = append(sets, r.config.Guard.Networks...)
	}
	for _, i := range r.imports {
		for _, name := range i.networks {
			if own, p, found := r.overlapping(name, sets); found {
				i.node.Errorf("%s overlaps %s of %s: what is the cluster's own, fenced or guarded must not be led to a router; import narrower networks", name, p, own)
			}
		}
	}
}

// overlapping finds a network of some that another one overlaps.
func (r *reader) overlapping(network string, sets []string) (own string, p netip.Prefix, found bool) {
	for _, set := range sets {
		for _, p := range r.config.Network(set) {
			if slices.ContainsFunc(r.config.Network(network), p.Overlaps) {
				return set, p, true
			}
		}
	}
	return "", netip.Prefix{}, false
}

// checkAnnounced reports networks that no router may be told of. What comes in from it
// for an announced network and is taken by nobody on the node is stopped, lest it goes
// back and forth: a pod's or a node's packets would be.
func (r *reader) checkAnnounced() {
	for _, a := range r.announced {
		for _, name := range a.networks {
			if own, p, found := r.overlapping(name, []string{"pods", "nodes"}); found {
				what := name + " overlaps " + p.String() + " of " + own
				if own == name {
					what = name + " is the cluster's own"
				}
				a.node.Errorf("%s: what a router sends for an announced network goes no further than this node, which would cut the world off from it; announce networks of Services only, such as loadBalancers", what)
				continue
			}
			r.checkAnnouncedGateway(a.node, name)
		}
	}
}

// checkAnnouncedGateway reports a network that has a router in it: it is a link's.
func (r *reader) checkAnnouncedGateway(n *strictyaml.Node, network string) {
	for _, p := range r.config.Network(network) {
		for _, g := range r.gateways {
			for _, a := range []netip.Addr{g.ref.IPv4.Addr, g.ref.IPv6.Addr} {
				if a.IsValid() && p.Contains(a) {
					n.Errorf("%s: %s contains the gateway %s of %s, and so is the network of %s, which the router has itself; announce networks of Services only", network, p, a, g.what, g.link)
					return
				}
			}
		}
	}
}

// checkAPI reports what only the Kubernetes API tells of, where it is not asked.
func (r *reader) checkAPI() {
	if c := r.config.Cluster; c != nil && c.NodesFile == "" {
		return
	}
	for _, use := range r.fromAPI {
		if use.idle {
			use.node.Warnf("%s: none is announced: only the Kubernetes API tells of them; add cluster.kubernetes", use.what)
		} else {
			use.node.Errorf("%s needs cluster.kubernetes", use.what)
		}
	}
}

// checkAggregates reports aggregates that are wider than the addresses given out.
func (r *reader) checkAggregates() {
	for _, a := range r.aggregates {
		given := slices.DeleteFunc(slices.Clone(r.config.Network("loadBalancers")), func(p netip.Prefix) bool { return routing.FamilyOf(p.Addr()) != a.family })
		if len(given) > 0 && !slices.ContainsFunc(given, func(p netip.Prefix) bool { return p.Bits() <= a.bits }) {
			a.node.Warnf("%s: /%d is wider than loadBalancers (%s): routers are told of addresses that are none", a.node.Key, a.bits, given[0])
		}
	}
}
