package intent

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// clusterSets are the networks whose packets must not leave by a table's
// default.
var clusterSets = []string{"pods", "services", "nodes", "loadBalancers"}

// check finds what is wrong between sections.
func (r *reader) check() {
	r.checkNetworks()
	r.checkShared()
	r.checkClasses()
	r.checkRules()
	r.checkRoutes()
	r.checkFences()
	r.checkGaps()
	r.checkImports()
	r.checkAnnounced()
	r.checkAPI()
	r.checkAggregates()
	if r.config.Cluster == nil {
		for _, use := range r.byNode {
			use.node.Errorf("%s needs the nodes to be known: add cluster, with nodesFile or kubernetes", use.what)
		}
	}
}

// checkNetworks reports networks that are used but nowhere defined.
func (r *reader) checkNetworks() {
	names := make([]string, 0, len(r.config.Networks))
	for _, n := range r.config.Networks {
		names = append(names, n.Name)
	}
	uses := slices.DeleteFunc(slices.Clone(r.networks), func(u networkUse) bool { return u.name == routing.World })
	if len(names) == 0 && len(uses) > 1 {
		uses[0].node.Errorf("undefined network %q: there is no network at all; name them in the section networks (%d uses)", uses[0].name, len(uses))
		return
	}
	for _, use := range uses {
		if !slices.Contains(names, use.name) {
			use.node.Errorf("undefined network %q%s", use.name, strictyaml.DidYouMean(use.name, names))
		}
	}
}

// checkShared reports addresses that two of the cluster's own networks have: whose
// packets they are then, nobody can say.
func (r *reader) checkShared() {
	for i, b := range r.defined {
		for _, a := range r.defined[:i] {
			if a.name == b.name || !slices.Contains(clusterSets, a.name) || !slices.Contains(clusterSets, b.name) {
				continue
			}
			if _, p, found := r.overlapping(b.name, []string{a.name}); found {
				b.node.Warnf("%s shares addresses with %s of %s: each address should be of one of them only", b.name, p, a.name)
			}
		}
	}
}

// checkClasses compares the classes with each other and with what serves them.
func (r *reader) checkClasses() {
	type promise struct {
		class string
		line  int
	}
	promises := map[routing.Traffic]promise{}
	served, listed := r.servedLinks(), map[string]bool{}
	for i, c := range r.config.Classes {
		place := r.classes[i]
		listed[c.Link] = true
		for j, t := range c.Traffic {
			if t.From == "" || t.To == "" {
				continue
			}
			if p, twice := promises[t]; twice {
				place.traffic[j].Errorf("traffic from %s to %s is promised to class %s on line %d already", t.From, t.To, p.class, p.line)
				continue
			}
			promises[t] = promise{c.Name, place.traffic[j].Line}
		}
		switch {
		case c.Link == "":
		case c.Delegated && served[c.Link]:
			place.link.Warnf("class %s: link %s is delegated to a pod, but a table or session here uses it", c.Name, c.Link)
		case !c.Delegated && !served[c.Link] && r.fencedOff(c.Link) != "":
			t := r.fencedOff(c.Link)
			place.link.Warnf("class %s: pods cannot reach the network of %s: the fence of table %s has it, like that of every class link that carries nothing of the world; list %s in connected of table %s if they are to", c.Name, c.Link, t, c.Link, t)
		case !c.Delegated && !served[c.Link]:
			place.link.Warnf("class %s: no table uses link %s, so nothing here can make its traffic leave by it", c.Name, c.Link)
		}
	}
	for _, a := range r.addresses {
		if !served[a.link] && !listed[a.link] {
			a.node.Warnf("addresses on link %s are of no use: no class, table or session names it", a.link)
		}
	}
}

// servedLinks are the links that a table or a session uses.
func (r *reader) servedLinks() map[string]bool {
	served := map[string]bool{}
	for _, t := range r.config.Tables {
		for _, l := range t.Routes.Connected {
			served[l] = true
		}
		if own := t.Routes.Own; own != nil {
			served[own.Link] = true
		}
		if peers := t.Routes.Peers; peers != nil {
			served[peers.Link], served[peers.Fallback.Link] = true, true
		}
		if def := t.Routes.Default; def != nil {
			served[def.Link] = true
		}
	}
	if b := r.config.BGP; b != nil {
		if b.Mesh != nil {
			served[b.Mesh.Link] = true
		}
		for _, u := range b.Upstreams {
			served[u.Link] = true
		}
	}
	return served
}

// has reports whether a network has prefixes of the family.
func (r *reader) has(network string, f routing.Family) bool {
	return slices.ContainsFunc(r.config.Network(network), func(p netip.Prefix) bool {
		return routing.FamilyOf(p.Addr()) == f
	})
}

// covered reports whether every prefix lies in one of the networks.
func (r *reader) covered(prefixes []netip.Prefix, networks []string) bool {
	for _, p := range prefixes {
		inside := func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) }
		if !slices.ContainsFunc(networks, func(n string) bool {
			return slices.ContainsFunc(r.config.Network(n), inside)
		}) {
			return false
		}
	}
	return true
}
