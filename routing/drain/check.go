package drain

import (
	"fmt"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// askable says what of a request can never be done.
func askable(s *routing.State, req *routing.DrainRequest) error {
	cfg := s.Config.Config
	if cfg == nil || cfg.Idle() {
		return &routing.BadQuestion{Field: "classes", Problem: "there is no configuration, and so nothing that a drain could take out"}
	}
	links, unknown := cfg.DrainLinks(req.Classes)
	for _, name := range unknown {
		if !slices.ContainsFunc(cfg.Classes, func(c routing.Class) bool { return c.Name == name }) {
			return &routing.BadQuestion{Field: "classes", Problem: fmt.Sprintf("there is no class %q", name), Missing: name}
		}
	}
	if len(unknown) > 0 {
		return &routing.BadQuestion{Field: "classes", Problem: "there is nothing of " + list(unknown) + " that a drain could take out"}
	}
	if len(links) == 0 {
		return &routing.BadQuestion{Field: "classes", Problem: "the configuration has nothing that a drain could take out"}
	}
	if wait, grace := patience(s, req), graceTime(s, req); grace >= wait && toRouters(s, req) > 0 {
		return &routing.BadQuestion{Field: "wait", Problem: fmt.Sprintf("%v would be over before the grace time for routers, %v, is", wait, grace)}
	}
	return nil
}

// drainable returns the links that a request takes out.
func drainable(s *routing.State, req *routing.DrainRequest) []string {
	if s.Config.Config == nil {
		return nil
	}
	links, _ := s.Config.Config.DrainLinks(req.Classes)
	return links
}

// judge collects why a drain is not safe.
type judge struct {
	*routing.State
	cfg     *routing.Config
	req     *routing.DrainRequest
	kube    bool // the Kubernetes API keeps the lock
	locked  bool // it has been won
	links   []string
	reasons []string
}

// judgeOf returns the judge of a request, where no lock has been won.
func judgeOf(s *routing.State, req *routing.DrainRequest) *judge {
	j := &judge{State: s, cfg: s.Config.Config, req: req, links: drainable(s, req)}
	j.kube = j.cfg != nil && j.cfg.Cluster != nil && j.cfg.Cluster.Kubernetes != nil
	return j
}

func (j *judge) add(format string, args ...any) {
	j.reasons = append(j.reasons, fmt.Sprintf(format, args...))
}

// unsafe names every reason why this node must not be drained now. Once the lock has
// been won, others that drain are no longer one.
func unsafe(s *routing.State, req *routing.DrainRequest, kube, locked bool) []string {
	j := judgeOf(s, req)
	j.kube, j.locked = kube, locked
	if j.cfg == nil || len(j.links) == 0 {
		return nil
	}
	if j.unknown() {
		return j.reasons // nothing else can be judged
	}
	if !locked {
		j.otherDrains()
	}
	if kube {
		j.protected()
	} else {
		j.strangers()
	}
	j.lastAnnouncer()
	j.noFallback()
	return j.reasons
}

// unknown reports whether the nodes are not known well enough.
func (j *judge) unknown() bool {
	if j.cfg.Cluster == nil {
		return false
	}
	switch inv := &j.Inventory; {
	case !inv.Synced:
		j.add("the nodes have not been read yet, so that nobody knows whether another one is drained%s: wait for it", inBrackets(inv.Stale))
	case inv.Stale != "":
		j.add("what is known of the nodes is old (%s): wait until they can be read", inv.Stale)
	case inv.Node(j.Node) == nil:
		j.add("node %q is not in %s: add it there", j.Node, inv.Source)
	case j.kube && inv.Node(j.Node).UID == "":
		j.add("the UID of Node %s is not known, which the lock needs: wait for it", j.Node)
	default:
		return false
	}
	return true
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// otherDrains: one node at a time.
func (j *judge) otherDrains() {
	if j.kube {
		switch lease := j.Inventory.Drain; {
		case lease == nil:
			j.add("the drain lease %s/%s has not been read yet: wait for it", j.cfg.Drain.LeaseNamespace, j.cfg.Drain.LeaseName)
		case lease.Unusable != "" && lease.Version != "":
			j.add("the drain lease %s/%s cannot be used (%s): put it right first", j.cfg.Drain.LeaseNamespace, j.cfg.Drain.LeaseName, lease.Unusable)
		default:
			if by := heldByOther(j.State, lease, j.req); by != "" {
				j.add("%s", by)
			}
			if lease.Version == "" {
				j.remembered("the drain lease is gone, but said so")
			}
		}
		return
	}
	j.remembered("its marker has been seen in BGP and not withdrawn")
}

// remembered names the others that are drained as far as is known.
func (j *judge) remembered(how string) {
	for _, name := range j.Plan.Drained {
		if name != j.Node {
			j.add("%s is drained, or about to be (%s): undrain it first", name, how)
		}
	}
}

// protected: of the nodes that the configuration protects, no other may be away,
// whether this one is protected or not. Of several that follow their cordon the lock
// decides, and so those do not count for each other that say that they do. One that
// does not say so may be worked on: undrained by hand, or without a netclassd.
func (j *judge) protected() {
	sessions := j.sessions()
	for i := range j.Inventory.Nodes {
		n := &j.Inventory.Nodes[i]
		if n.Name == j.Node || !n.Protected {
			continue
		}
		s, drained := sessions[n.Name], slices.Contains(j.Plan.Drained, n.Name)
		switch {
		case n.NotReady:
			j.add("%s is protected by drain.protect.selector, and not Ready: bring it back first", n.Name)
		case n.Cordoned && !j.req.Cordon:
			j.add("%s is protected by drain.protect.selector, and cordoned: uncordon it first", n.Name)
		case n.Cordoned && !drained && !s.notes.Has(routing.NoteDrains):
			j.add("%s is protected by drain.protect.selector, and cordoned, and its netclassd does not say that it drains it for that: uncordon it first", n.Name)
		case drained && j.locked && n.Name != j.req.Holder:
			j.add("%s is protected by drain.protect.selector, and drained: undrain it first", n.Name)
		}
	}
}

// strangers: without Kubernetes what a node is doing is known only by its session.
func (j *judge) strangers() {
	up, all := map[string]bool{}, []string{}
	for i := range j.Peers {
		p := &j.Peers[i]
		if p.Neighbor.Upstream {
			continue
		}
		name := p.Neighbor.Key.Peer
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
		up[name] = up[name] || p.Session.State == routing.Established && !p.Session.Doubt
	}
	var silent []string
	for _, name := range all {
		if !up[name] && !slices.Contains(j.Plan.Drained, name) {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 {
		j.add("there is no BGP session with %s, so that nobody knows whether it is drained: bring it back first", list(silent))
	}
	if mesh := j.cfg.BGP != nil && j.cfg.BGP.Mesh != nil; !mesh && len(j.Inventory.Nodes) > 1 {
		j.add("there is neither a Kubernetes API nor a BGP mesh, by which nodes tell each other that they are drained: another one may be, and all go on sending to this one's pods by its class links; see to that yourself")
	}
}

// noFallback: where there is no second way to the peers, taking out the first cuts
// the pods off.
func (j *judge) noFallback() {
	for i := range j.cfg.Tables {
		t := &j.cfg.Tables[i]
		if p := t.Routes.Peers; p != nil && p.Fallback.None() && slices.Contains(j.links, p.Link) {
			j.add("table %s has no fallback for its peers, so that pods would be cut off: give it one", t.Name)
		}
	}
}

// list names things in a sentence, and how many more there are than fit.
func list(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
