package drain

import (
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// lastText begins the reason of the last announcer.
const lastText = "this node is the last to announce "

func isLast(reason string) bool { return strings.HasPrefix(reason, lastText) }

// lastAnnouncer: what routers are told of here, another node must tell them too.
func (j *judge) lastAnnouncer() {
	if j.cfg.BGP == nil {
		return
	}
	var lonely []string
	for i := range j.cfg.BGP.Upstreams {
		u := &j.cfg.BGP.Upstreams[i]
		if !slices.Contains(j.links, u.Link) {
			continue
		}
		var last, why []string
		for _, f := range routing.Families {
			key := routing.SessionKey{Peer: u.Name, Family: f}
			vips := told(j.State, key)
			if len(vips) == 0 || !inSession(j.State, key) {
				continue // with nobody who has heard of them, nothing is taken back
			}
			others := j.others(key)
			if len(others.names()) == 0 {
				last, why = append(last, vips...), append(why, others.why...)
			} else if s := u.Advertise.Services; s != nil {
				lonely = append(lonely, j.lonely(s, f, others.names())...)
			}
		}
		if len(last) > 0 {
			j.add(lastText+"%s to %s%s: bring another one back first", list(last), u.Name, inBrackets(list(unique(why))))
		}
	}
	if len(lonely) > 0 {
		j.add("this node alone has a ready endpoint of %s: let another one have one too", list(unique(lonely)))
	}
}

// lonely names the Services that no other node can take.
func (j *judge) lonely(asked *routing.Services, f routing.Family, others []string) (names []string) {
	for k := range j.Inventory.Services {
		svc := &j.Inventory.Services[k]
		if !svc.Local || !asked.Selects(svc) || !slices.Contains(svc.Nodes, j.Node) ||
			!slices.ContainsFunc(svc.Addresses, func(a netip.Addr) bool { return routing.FamilyOf(a) == f }) {
			continue
		}
		if !slices.ContainsFunc(svc.Nodes, func(n string) bool { return slices.Contains(others, n) }) {
			names = append(names, svc.Name)
		}
	}
	return names
}

// told lists what a router is told of here in one family.
func told(s *routing.State, key routing.SessionKey) (vips []string) {
	for i := range s.Plan.Announce {
		if o := &s.Plan.Announce[i]; o.To == key.Peer && routing.FamilyOf(o.Prefix.Addr()) == key.Family {
			vips = append(vips, o.Prefix.String())
		}
	}
	return vips
}

// inSession reports whether a session is up.
func inSession(s *routing.State, key routing.SessionKey) bool {
	return slices.ContainsFunc(s.Peers, func(p routing.PeerStatus) bool {
		return p.Neighbor.Key == key && p.Session.State == routing.Established
	})
}

// announcers are what is known of the other nodes and one session with a router.
type announcers struct {
	known   []string // these announce to it
	unknown []string // these may: they are there, and do not say
	why     []string // the others do not
}

// names are those that can take over, as far as is known.
func (a *announcers) names() []string { return append(slices.Clone(a.known), a.unknown...) }

// others says of each other node whether it announces to a router, as this one does.
func (j *judge) others(key routing.SessionKey) (a announcers) {
	sessions := j.sessions()
	for i := range j.Inventory.Nodes {
		n := &j.Inventory.Nodes[i]
		if n.Name == j.Node {
			continue
		}
		s := sessions[n.Name]
		switch {
		case slices.Contains(j.Plan.Drained, n.Name):
			a.why = append(a.why, n.Name+" is drained")
		case n.NotReady:
			a.why = append(a.why, n.Name+" is not Ready")
		case s.silent, !j.kube && !s.up:
			a.why = append(a.why, "there is no BGP session with "+n.Name)
		case s.notes.Has(routing.NoteRouter(key)):
			a.known = append(a.known, n.Name)
		case s.notes.Has(routing.NoteRouters):
			a.why = append(a.why, n.Name+" announces nothing to "+key.String())
		default:
			a.unknown = append(a.unknown, n.Name)
		}
	}
	return a
}

// meshed is what the sessions with another node tell.
type meshed struct {
	up     bool
	silent bool // there should be one, and there is none
	notes  routing.Notes
}

// sessions returns what the mesh tells of each other node. While the own link to them
// is down, that there are no sessions tells nothing of them.
func (j *judge) sessions() map[string]meshed {
	of, wanted := map[string]meshed{}, map[routing.SessionKey]bool{}
	if s := j.Plan.Speak; s != nil {
		for i := range s.Neighbors {
			wanted[s.Neighbors[i].Key] = true
		}
	}
	for i := range j.Peers {
		p := &j.Peers[i]
		if p.Neighbor.Upstream {
			continue
		}
		m := of[p.Neighbor.Key.Peer]
		switch {
		case p.Session.State == routing.Established && !p.Session.Doubt:
			m.up = true
			m.notes += " " + p.Notes
		case wanted[p.Neighbor.Key] && j.Kernel != nil && j.Kernel.Link(p.Neighbor.Link).Usable():
			m.silent = true
		}
		of[p.Neighbor.Key.Peer] = m
	}
	for name, m := range of {
		m.silent = m.silent && !m.up
		of[name] = m
	}
	return of
}

// unknownAnnouncers says to which routers it is not known whether any other node
// announces what a request takes back.
func (j *judge) unknownAnnouncers() (said []string) {
	if j.cfg.BGP == nil {
		return nil
	}
	var whom []string // who cannot say
	of := map[string][]string{}
	for i := range j.cfg.BGP.Upstreams {
		u := &j.cfg.BGP.Upstreams[i]
		for _, f := range routing.Families {
			key := routing.SessionKey{Peer: u.Name, Family: f}
			if !slices.Contains(j.links, u.Link) || len(told(j.State, key)) == 0 || !inSession(j.State, key) {
				continue
			}
			if a := j.others(key); len(a.known) == 0 && len(a.unknown) > 0 {
				silent := list(a.unknown)
				whom, of[silent] = append(whom, silent), append(of[silent], key.String())
			}
		}
	}
	for _, silent := range unique(whom) {
		said = append(said, "whether another node announces to "+list(of[silent])+" is not known, as "+silent+" cannot say: if none does, its addresses are gone; look at the router first")
	}
	return said
}

// unique leaves out what has been said.
func unique(texts []string) (once []string) {
	for _, t := range texts {
		if !slices.Contains(once, t) {
			once = append(once, t)
		}
	}
	return once
}

// toRouters counts the prefixes that routers are told of and a request takes back, each
// once however many routers there are.
func toRouters(s *routing.State, req *routing.DrainRequest) int {
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
	prefixes := map[netip.Prefix]bool{}
	for i := range s.Plan.Announce {
		if o := &s.Plan.Announce[i]; told[o.To] {
			prefixes[o.Prefix] = true
		}
	}
	return len(prefixes)
}
