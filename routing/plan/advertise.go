package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// advertise plans what one upstream is told in one family, and returns why it is
// told less than is configured, for who looks at the session.
//
// Each prefix is first made unreachable for packets that come in from the router
// and that nothing on this node has taken: an unused address would otherwise go
// back and forth until its TTL ends. These rules are there for all that is
// configured, also while nothing is announced: what is still on its way after a
// withdrawal is stopped too.
func (m *maker) advertise(b *routing.BGP, u *routing.Upstream, f routing.Family, local netip.Addr) (why string) {
	a := m.gather(u, f)
	object := "peer/" + u.Name + "/" + f.String()
	shut, unknown := m.unready(u, f)
	drained := m.drained(u.Link, routing.DrainUpstream)
	if drained {
		shut, unknown = "this node is drained", false
	}
	switch {
	case shut == "":
		why = a.elsewhere()
	case len(a.prefixes) > 0:
		why = "nothing is advertised: " + shut
		if unknown && len(m.told(u.Name, f)) > 0 {
			why = "nothing more is advertised: " + shut
		}
		if !drained {
			m.condition(object, "NotAdvertised", "%s", why)
		}
	}
	for _, lack := range a.lacks {
		m.condition(object, lack.reason, "%s", lack.text)
	}
	to := m.attributes(b, u)
	to.NextHop = local
	unstopped := ""
	for _, p := range a.prefixes {
		stop := stopRule(u.Link, m.cover(a, p))
		if unstopped == "" {
			if unstopped = m.addRule(stop); unstopped != "" {
				m.condition(object, "NotAdvertised", "%s is not advertised%s: the rule %q is not in: %s", p, others(len(a.prefixes)), stop, unstopped)
			}
		}
		if unstopped != "" || shut != "" && !(unknown && m.told(u.Name, f)[p]) {
			continue
		}
		to.Prefix = p
		stop.Protocol = m.cfg.Daemon.Protocol
		m.plan.Announce = append(m.plan.Announce, routing.Origin{Announcement: to, NeedsRule: stop})
	}
	return why
}

func others(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", nor is anything else (%d prefixes)", n)
}

// attributes returns what goes with each prefix. A node that is to be drained asks
// to be preferred less first (RFC 8326).
func (m *maker) attributes(b *routing.BGP, u *routing.Upstream) routing.Announcement {
	a := &u.Advertise
	to := routing.Announcement{
		To: u.Name, Communities: a.Communities,
		LocalPreference: a.LocalPreference, MED: a.MED, Prepend: a.Prepend,
	}
	if !m.drained(u.Link, routing.DrainShutdown) {
		return to
	}
	if !slices.Contains(a.Communities, gracefulShutdown) {
		to.Communities = append(slices.Clone(a.Communities), gracefulShutdown)
	}
	if u.PeerASN == b.ASN {
		to.LocalPreference = 1 // 0 would not be sent
	}
	return to
}

// unready says why nothing may be announced to a router, as the datapath of this
// node's services is not there; "" when it is. Where unknown is set nobody has
// said that it is gone either: what is announced already stays.
func (m *maker) unready(u *routing.Upstream, f routing.Family) (why string, unknown bool) {
	if m.kubernetes() {
		switch {
		case m.self == nil:
			return selfUnknown, true
		case m.self.NotReady:
			return "node " + m.self.Name + " is not Ready", false
		}
	}
	for i := range m.cfg.Tables {
		if o := m.cfg.Tables[i].Routes.Own; o != nil && o.Link != "" {
			if why := m.cannotDeliver(o.Link, f); why != "" {
				return why, false
			}
		}
	}
	url := u.Advertise.ReadyHTTP
	if url == "" {
		return "", false
	}
	why, asked := m.in.Unready[url]
	switch {
	case !asked:
		return url + " has not answered yet", true
	case why != "":
		return url + " does not answer well: " + why, false
	}
	return "", false
}

func (m *maker) kubernetes() bool { return m.cfg.Cluster != nil && m.cfg.Cluster.Kubernetes != nil }

// told returns what a router was told in a family by the newest order.
func (m *maker) told(upstream string, f routing.Family) map[netip.Prefix]bool {
	key := routing.SessionKey{Peer: upstream, Family: f}
	if told, ok := m.tolds[key]; ok {
		return told
	}
	told := make(map[netip.Prefix]bool)
	if s := m.in.Speaking; s != nil {
		for i := range s.Announce {
			if a := &s.Announce[i]; a.To == upstream && routing.FamilyOf(a.Prefix.Addr()) == f {
				told[a.Prefix] = true
			}
		}
	}
	if m.tolds == nil {
		m.tolds = make(map[routing.SessionKey]map[netip.Prefix]bool)
	}
	m.tolds[key] = told
	return told
}

// stopRule is the rule that ends what comes in by a link for a prefix and that
// nothing on this node has taken.
func stopRule(link string, to netip.Prefix) routing.Rule {
	return routing.Rule{
		Family: routing.FamilyOf(to.Addr()), Priority: routing.VIPPriority, To: to, IIF: link,
		Action: routing.ActionUnreachable, SuppressPrefixLen: routing.NoSuppress,
	}
}

// cover returns the prefix that is stopped for the sake of an announced one: the
// widest that the upstream is told of by name, else the widest of loadBalancers,
// else itself. Every packet that comes this far is held against every rule, so
// that a thousand Services must not be a thousand rules. Neighbours are not
// joined: a Service more would change the rule that its neighbour waits for.
func (m *maker) cover(a *offer, p netip.Prefix) netip.Prefix {
	widest := wider(p, a.networks)
	if slices.Contains(a.networks, p) || widest != p {
		return widest
	}
	pool := wider(p, m.cfg.Network("loadBalancers"))
	if pool != p && m.unannounced(pool) != "" {
		return p
	}
	return pool
}

// wider returns the widest of a prefix and the networks that it lies in.
func wider(p netip.Prefix, networks []netip.Prefix) netip.Prefix {
	for _, n := range networks {
		if n.Bits() < p.Bits() && n.Contains(p.Addr()) {
			p = n
		}
	}
	return p
}
