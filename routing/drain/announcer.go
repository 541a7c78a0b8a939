package drain

import (
	"slices"

	"netclass.dev/routing"
)

// lastAnnouncer: what routers are told of here, another node must tell them too.
func (j *judge) lastAnnouncer() {
	if j.cfg.BGP == nil {
		return
	}
	others := j.others()
	var lonely []string
	anything := ""
	for i := range j.cfg.BGP.Upstreams {
		u := &j.cfg.BGP.Upstreams[i]
		if !slices.Contains(j.links, u.Link) || !j.tells(u.Name) {
			continue
		}
		anything = u.Name
		if u.Advertise.Services == nil {
			continue
		}
		for k := range j.Inventory.Services {
			svc := &j.Inventory.Services[k]
			if !svc.Local || !u.Advertise.Services.Selects(svc) || !slices.Contains(svc.Nodes, j.Node) {
				continue
			}
			if !slices.ContainsFunc(svc.Nodes, func(n string) bool { return slices.Contains(others, n) }) && !slices.Contains(lonely, svc.Name) {
				lonely = append(lonely, svc.Name)
			}
		}
	}
	switch {
	case anything != "" && len(others) == 0:
		j.add("no other node that is ready and not drained can announce to %s what this one does: bring one back first", anything)
	case len(lonely) > 0:
		j.add("this node alone has a ready endpoint of %s: let another one have one too", list(lonely))
	}
}

// tells reports whether a router is told of anything.
func (j *judge) tells(upstream string) bool {
	return slices.ContainsFunc(j.Plan.Announce, func(o routing.Origin) bool { return o.To == upstream })
}

// others are the nodes that can take over what this one announces, as far as is
// known: Ready, or by a nodes file those with a session, and not drained.
func (j *judge) others() (names []string) {
	up := map[string]bool{}
	for i := range j.Peers {
		if p := &j.Peers[i]; p.Session.State == routing.Established && !p.Neighbor.Upstream {
			up[p.Neighbor.Key.Peer] = true
		}
	}
	for i := range j.Inventory.Nodes {
		n := &j.Inventory.Nodes[i]
		if n.Name == j.Node || slices.Contains(j.Plan.Drained, n.Name) {
			continue
		}
		if j.kube && !n.NotReady || !j.kube && up[n.Name] {
			names = append(names, n.Name)
		}
	}
	return names
}

// toRouters counts the prefixes that routers are told of and a request takes back.
func toRouters(s *routing.State, req *routing.DrainRequest) (n int) {
	cfg := s.Config.Config
	if cfg == nil || cfg.BGP == nil {
		return 0
	}
	links := drainable(s, req)
	told := map[string]bool{}
	for i := range cfg.BGP.Upstreams {
		if u := &cfg.BGP.Upstreams[i]; slices.Contains(links, u.Link) {
			told[u.Name] = true
		}
	}
	for i := range s.Plan.Announce {
		if told[s.Plan.Announce[i].To] {
			n++
		}
	}
	return n
}
