package plan

import "slices"

// filters says of the class links, and of those that sessions go over, which have a
// reverse path filter. It takes a packet for forged by how its answer would be
// sent, and so drops what other links may answer.
func (m *maker) filters() {
	var links []string
	for i := range m.cfg.Classes {
		if c := &m.cfg.Classes[i]; !c.Delegated {
			links = append(links, c.Link)
		}
	}
	if b := m.cfg.BGP; b != nil {
		if b.Mesh != nil {
			links = append(links, b.Mesh.Link)
		}
		for i := range b.Upstreams {
			links = append(links, b.Upstreams[i].Link)
		}
	}
	for i, name := range links {
		l := m.links[name]
		if l == nil || slices.Contains(links[:i], name) {
			continue
		}
		var what string
		switch l.RPFilter {
		case 1:
			what = "rp_filter is strict: IPv4 packets whose answers leave by another link are dropped"
		case 2:
			what = "rp_filter is loose: IPv4 packets from a guarded network that there is no route to are dropped"
		default:
			continue
		}
		// With slashes, as the name of a link may have dots, which are its own then.
		m.condition("link/"+name, "ReversePathFilter", "%s; set net/ipv4/conf/all/rp_filter and net/ipv4/conf/%s/rp_filter to 0", what, name)
	}
}
