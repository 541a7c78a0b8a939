package promise

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// Check is one flow to put to the kernel.
type Check struct {
	Flow     routing.Flow
	from, to string
	promise  int  // whose; proofOnly: the router's proof alone
	nobody   bool // no node has the destination
}

const proofOnly = -1

// Round says what of all flows to check now.
type Round struct {
	Cursor int // where the last round ended
	Budget int // about how many flows; 0: all
	// Always are flows, and Changed the destinations of routes, that no round
	// leaves out.
	Always  []routing.Flow
	Changed map[netip.Prefix]bool
}

// Checks are the flows of one round.
type Checks struct {
	List   []Check
	Cursor int // for the next round
	Rounds int // that it takes until every flow has had its turn
	Flows  int // all there are
	proofs int // all there are of the router's proof
}

// Questions lists what to ask.
func (c *Checks) Questions() []routing.Flow {
	flows := make([]routing.Flow, len(c.List))
	for i := range c.List {
		flows[i] = c.List[i].Flow
	}
	return flows
}

// Round lists the flows of one round: of each promise and of the router's proof
// those of the peers whose turn it is, so that every promise is looked at every
// time.
func (v *View) Round(r Round) *Checks {
	queues := v.queues()
	longest, several := 0, 0
	c := &Checks{}
	for _, q := range queues {
		longest = max(longest, len(q.targets))
		if len(q.targets) > 1 {
			several++
		}
		c.Flows += len(q.targets)
		if q.promise == proofOnly {
			c.proofs += len(q.targets)
		}
	}
	window := longest
	if r.Budget > 0 {
		window = min(max((r.Budget-(len(queues)-several))/max(several, 1), 1), longest)
	}
	start := 0
	if longest > 0 {
		start = r.Cursor % longest
		c.Cursor, c.Rounds = (start+window)%longest, (longest+window-1)/window
	}
	always := make(map[routing.Flow]bool, len(r.Always))
	for _, f := range r.Always {
		always[f] = true
	}
	nodes := v.holders(r.Changed)
	extra := r.Budget
	for i := range queues {
		q := &queues[i]
		for n := range q.targets {
			turn := (n - start + longest) % longest
			switch {
			case turn < window, len(q.targets) == 1:
			case extra > 0 && (nodes[q.targets[n].peer] || len(always) > 0 && always[q.flow(n)]):
				extra--
			default:
				continue
			}
			c.List = append(c.List, Check{q.flow(n), q.source.what, q.targets[n].name(), q.promise, q.targets[n].peer == ""})
		}
	}
	return c
}

// queue is a source and what it sends to.
type queue struct {
	promise int // whose; proofOnly: the router's proof alone
	source  source
	targets []*target
}

func (q *queue) flow(n int) routing.Flow {
	return routing.Flow{Dst: q.targets[n].addr, Src: q.source.src, IIF: q.source.iif, Mark: q.source.mark}
}

// queues lists every flow: one queue for each promise, then those of the proof.
// The flows to addresses that no route leads to are a queue each, so that they
// are asked every time.
func (v *View) queues() []queue {
	var queues []queue
	for i := range v.promises {
		queues = append(queues, queue{i, v.promises[i].from, v.promises[i].targets})
	}
	for _, f := range routing.Families {
		local, arriving := v.proofSources(f)
		queues = append(queues, v.strays(f, local, arriving)...)
		if peers := v.peerTargets(f); len(peers) > 0 {
			for _, s := range append(local, arriving...) {
				queues = append(queues, queue{proofOnly, s, peers})
			}
		}
	}
	return queues
}

// peerTargets lists the pods and addresses of all peers in one family.
func (v *View) peerTargets(f routing.Family) []*target {
	places := v.places.Of(f)
	all := make([]*target, 0, len(places))
	for i := range places {
		if p := &places[i]; p.peer != v.Node {
			all = append(all, &p.target)
		}
	}
	return all
}

// holders returns the nodes that have one of the prefixes as a pod CIDR.
func (v *View) holders(prefixes map[netip.Prefix]bool) map[string]bool {
	if len(prefixes) == 0 {
		return nil
	}
	nodes := map[string]bool{}
	for _, n := range v.peers {
		if slices.ContainsFunc(n.PodCIDRs, func(c netip.Prefix) bool { return prefixes[c] }) {
			nodes[n.Name] = true
		}
	}
	return nodes
}
