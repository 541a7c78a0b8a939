package plan

import (
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// noAdvertise is the community that keeps a marker with the peer that it is sent
// to (RFC 1997); gracefulShutdown asks a router to prefer others (RFC 8326).
const (
	noAdvertise      = "65535:65282"
	gracefulShutdown = "65535:0"
)

// drainLinks returns the links that a drain of this node takes out. Where one of its
// classes is no longer configured nobody knows which link it had: none is given back
// that somebody may have unplugged.
func (m *maker) drainLinks() []string {
	links, _ := m.cfg.DrainLinks(m.in.Draining.Classes)
	var gone []string
	for _, name := range m.in.Draining.Classes {
		if !slices.ContainsFunc(m.cfg.Classes, func(c routing.Class) bool { return c.Name == name }) {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		links, _ = m.cfg.DrainLinks(nil)
		m.condition("drain", "ClassGone", "the configuration no longer has what this node is drained of (%s): every class is taken out until it is undrained", some(gone))
	}
	return links
}

// drained reports whether a drain of this node has come to a step and takes a
// link out.
func (m *maker) drained(link string, step routing.DrainStep) bool {
	return m.in.Draining.Step >= step && slices.Contains(m.drains, link)
}

// egressOut reports whether a drain takes out the ways out by a link: the default
// and the networks that its routers tell of.
func (m *maker) egressOut(link string) bool {
	return m.drained(link, routing.DrainDefault) && !m.in.Draining.KeepEgress
}

// takenOut says what a drain has taken out of a table; "" when nothing.
func (m *maker) takenOut(t *routing.Table) string {
	var what []string
	if d := t.Routes.Default; d != nil && m.egressOut(d.Link) {
		what = append(what, "the default over "+d.Link)
	}
	for _, link := range m.cfg.ImportLinks(t.Name) {
		if m.egressOut(link) {
			what = append(what, "what is imported over "+link)
		}
	}
	if p := t.Routes.Peers; p != nil && m.drained(p.Link, routing.DrainPaths) {
		what = append(what, "the class paths over "+p.Link)
	}
	if len(what) == 0 {
		return ""
	}
	return "taken out by a drain of this node: " + strings.Join(what, ", ")
}

// mark tells the mesh that this node is drained, or on its way there or back, where no
// lock says so.
func (m *maker) mark(f routing.Family, local netip.Addr) {
	if !m.in.Draining.Marker || m.in.Draining.Step < routing.DrainClaim {
		return
	}
	communities := []string{noAdvertise}
	switch m.in.Draining.Phase {
	case routing.DrainDone:
	case routing.DrainUndoing, routing.DrainBack:
		communities = append(communities, routing.NoteCommunity(m.cfg.BGP.ASN, routing.NoteUndraining))
	default:
		communities = append(communities, routing.NoteCommunity(m.cfg.BGP.ASN, routing.NoteDraining))
	}
	m.plan.Announce = append(m.plan.Announce, routing.Origin{Announcement: routing.Announcement{
		Prefix: routing.DrainMarker(m.plan.Speak.RouterID, f), NextHop: local, Communities: communities,
	}})
}

// isMarker reports whether a path is how a node says that it is drained. Of a
// session that is held the identifier is not known any more.
func isMarker(p *routing.Peering, path routing.Path) bool {
	return path.NoAdvertise && path.Prefix.IsSingleIP() &&
		(!p.RouterID.IsValid() || path.Prefix == routing.DrainMarker(p.RouterID, p.Key.Family))
}

// drainedNodes finds the other nodes that are drained or being drained.
func (m *maker) drainedNodes() {
	marked := m.marked()
	lease := m.lease()
	if len(marked) == 0 && len(m.in.Ledger.Drained) == 0 && lease == nil {
		return
	}
	for i := range m.nodes {
		name := m.nodes[i].Name
		leased := i != m.at && m.leased(i)
		switch mark := marked[name]; {
		case i == m.at:
		case leased:
			m.drainedNode(name, m.leasePhase(i), mark)
		case mark != "":
			m.drainedNode(name, mark)
		case m.remembered(name):
			m.drainedNode(name, m.in.Ledger.DrainPhases[name])
		}
	}
	if !m.in.Inventory.Synced { // who is not listed is not known to be gone
		for _, name := range m.in.Ledger.Drained {
			if name != m.in.Node && !m.isNode(name) {
				m.drainedNode(name, m.in.Ledger.DrainPhases[name])
			}
		}
		slices.Sort(m.plan.Drained)
	}
}

// marked returns the peers whose marker is there, and how far they are.
func (m *maker) marked() map[string]routing.DrainPhase {
	var marked map[string]routing.DrainPhase
	for i := range m.in.Peerings {
		p := &m.in.Peerings[i]
		for _, path := range p.Paths {
			if !path.NoAdvertise || !isMarker(p, path) {
				continue
			}
			if marked == nil {
				marked = make(map[string]routing.DrainPhase)
			}
			// The two families are told one after the other.
			if was := marked[p.Key.Peer]; was == "" || was == routing.DrainDone {
				marked[p.Key.Peer] = markPhase(path.Notes)
			}
		}
	}
	return marked
}

// lease returns the lock of the cluster's drains, or nil where it has never been
// read. While it cannot be read it stays what it was: who was drained then may be
// unplugged now.
func (m *maker) lease() *routing.DrainLease {
	if l := m.in.Inventory.Drain; l != nil && (l.Unusable == "" || l.Version != "") {
		return l
	}
	return nil
}

// leased reports whether a node is drained or being drained, as the lock says. It
// must be held by that very node, not by an earlier one of that name.
func (m *maker) leased(node int) bool {
	if !m.hasLock(node) {
		return false
	}
	s := m.leaseStatus(node)
	if s == nil {
		return true
	}
	switch s.Progress.Phase {
	case routing.DrainGoing, routing.DrainDone, routing.DrainUndoing, routing.DrainBack:
		return true
	}
	return false
}

// hasLock reports whether a node holds the lock.
func (m *maker) hasLock(node int) bool {
	l := m.lease()
	if l == nil {
		return false
	}
	uid, _, _ := strings.Cut(l.Holder, "/")
	return uid != "" && uid == m.nodes[node].UID
}

// leaseStatus returns what the holder of the lock says of its drain; nil: an answer
// to somebody else has taken the place of that, or it cannot be read.
func (m *maker) leaseStatus(holder int) *routing.DrainStatus {
	if l := m.lease(); l.Status != nil && l.Status.Request.Node == m.nodes[holder].Name {
		return l.Status
	}
	return nil
}

// remembered reports whether a node that was drained still counts as drained:
// without Kubernetes until a session of it is up that has said all but that, else
// until the lock has been read.
func (m *maker) remembered(name string) bool {
	if m.lease() != nil || !slices.Contains(m.in.Ledger.Drained, name) {
		return false // the lock says who is
	}
	for _, f := range routing.Families {
		p := m.peerings[routing.SessionKey{Peer: name, Family: f}]
		if !m.kubernetes() && p != nil && p.RouterID.IsValid() && p.Synced && !p.Held && p.Why == "" {
			return false
		}
	}
	return true
}

// leftOut says why the class path to a pod CIDR is not to be there; "" when it is.
// Without a fallback it stays: pods must go on reaching each other.
func (m *maker) leftOut(t *routing.Table, p *routing.Peers, node int, dst netip.Prefix) string {
	var why string
	switch {
	case m.drained(p.Link, routing.DrainPaths):
		why = "this node is drained"
	case p.Learn == routing.LearnNodes && m.peerDrained(node, p.Link):
		why = "it is " + m.plan.DrainPhase(m.nodes[node].Name).Doing()
	default:
		return ""
	}
	if _, ok := m.planned[packed(t.ID, dst, routing.MetricFallback)]; !ok {
		m.kept = append(m.kept, dst.String())
		return ""
	}
	return why
}

// peerDrained reports whether a node has taken its pods off a link, as the lock
// says. Where it is only known that the node is drained, they may be off any.
func (m *maker) peerDrained(node int, link string) bool {
	if !slices.Contains(m.plan.Drained, m.nodes[node].Name) {
		return false
	}
	if !m.leased(node) {
		return true
	}
	s := m.leaseStatus(node)
	if s == nil {
		return true
	}
	links, _ := m.cfg.DrainLinks(s.Request.Classes)
	return s.Progress.Step >= routing.DrainMesh && slices.Contains(links, link)
}

// keptPaths says which class paths of a table stay in spite of a drain.
func (m *maker) keptPaths(t *routing.Table, p *routing.Peers) {
	if len(m.kept) > 0 {
		m.condition("table/"+t.Name, "DrainKeepsPaths",
			"class paths over %s stay in spite of a drain, as nothing else leads to these pods: %s", p.Link, some(m.kept))
	}
	m.kept = nil
}
