package intent

import (
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// checkRoutes compares each table's sources with each other and with the
// sections they depend on.
func (r *reader) checkRoutes() {
	for i := range r.config.Tables {
		t, place := &r.config.Tables[i], &r.tables[i]
		if t.Name == routing.MainTable {
			checkMain(t, place)
		}
		r.checkPeers(t, place)
		r.checkDefault(t, place)
	}
}

// checkMain keeps out of main what the kernel or the administrator has there.
func checkMain(t *routing.Table, place *tablePlace) {
	if t.Routes.Default != nil {
		place.def.Errorf("main's default is not ours to set; give the traffic a table of its own, with a rule")
	}
	if place.connected != nil {
		place.connected.Errorf("the kernel itself keeps the connected networks in main; leave connected out")
	}
	if place.fence != nil {
		place.fence.Errorf("a fence in main would stop the node's own traffic; write guard: {networks: […]}")
	}
	if p := t.Routes.Peers; p != nil && p.Fallback.Main {
		place.fallback.Errorf("main cannot be its own fallback")
	}
}

func (r *reader) checkPeers(t *routing.Table, place *tablePlace) {
	p := t.Routes.Peers
	if p == nil {
		return
	}
	if p.Learn == routing.LearnBGP && (r.config.BGP == nil || r.config.BGP.Mesh == nil) {
		place.peers.Errorf("learn: bgp needs bgp.mesh")
	}
	if mesh := r.mesh(); mesh != nil && p.Learn == routing.LearnBGP && mesh.Address == routing.HopLink && p.Link != "" && mesh.Link != "" && mesh.Link != p.Link {
		place.peers.Warnf("peers are learned over %s, but their paths lead over %s; if that is meant, write bgp.mesh.address: internalIP", mesh.Link, p.Link)
	}
	if own := t.Routes.Own; own != nil && own.Link != "" && own.Link == p.Link {
		place.own.Errorf("own and peers have one link %s: own leads to this node's pods, peers to the other nodes", own.Link)
	}
	if p.Link != "" && p.Fallback.Link == p.Link {
		place.fallback.Errorf("the fallback has the link %s of the path it stands in for", p.Link)
	}
	if p.Accept == routing.AcceptWithin && !r.known("pods") {
		place.peers.Errorf("accept: within needs the network pods")
	}
	if p.MTU != 0 && p.MTU < 1280 && r.has("pods", routing.IPv6) {
		place.peers.Errorf("mtu must be at least 1280 where pods have IPv6, not %d", p.MTU)
	}
}

func (r *reader) mesh() *routing.Mesh {
	if r.config.BGP == nil {
		return nil
	}
	return r.config.BGP.Mesh
}

func (r *reader) checkDefault(t *routing.Table, place *tablePlace) {
	d := t.Routes.Default
	if d == nil || d.Link == "" {
		return
	}
	var private string
	for i := range r.config.Classes {
		c := &r.config.Classes[i]
		if c.Link != d.Link {
			continue
		}
		if c.Gateway() {
			return
		}
		private = c.Name
	}
	if private == "" {
		r.checkStray(t, place)
	}
	if private != "" {
		place.def.Warnf("the default leaves by %s, but class %s carries nothing to or from world", d.Link, private)
	}
}

// checkStray reports a default by the link of no class, where a class promises the
// table's traffic another link, or has nearly that name.
func (r *reader) checkStray(t *routing.Table, place *tablePlace) {
	link := t.Routes.Default.Link
	var links []string
	for i := range r.config.Classes {
		c := &r.config.Classes[i]
		links = append(links, c.Link)
		for _, tr := range c.Traffic {
			if tr.To == routing.World && slices.ContainsFunc(t.Rules, func(s routing.Selector) bool { return s.From == tr.From }) {
				place.def.Warnf("the default leaves by %s, but class %s promises the world's traffic of %s to %s", link, c.Name, tr.From, c.Link)
				return
			}
		}
	}
	if near := strictyaml.DidYouMean(link, links); near != "" {
		place.def.Warnf("the default leaves by %s, which is the link of no class%s", link, near)
	}
}
