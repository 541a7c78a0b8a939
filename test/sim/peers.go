package sim

import (
	"maps"
	"slices"
	"time"

	"netclass.dev/routing"
)

func (w *world) somePeer() *node {
	if len(w.nodes) < 2 {
		return nil
	}
	n := w.nodes[w.pick(len(w.nodes))]
	if n.name == self {
		return nil
	}
	return n
}

// peerEnds ends a peer's sessions in one of the ways that there are.
func (w *world) peerEnds() {
	n := w.somePeer()
	if n == nil {
		return
	}
	switch w.pick(6) {
	case 0:
		w.note("%s says CEASE and is gone", n.name)
		n.speaks = false
		w.speaker.endPeer(n.name, routing.CauseCease)
	case 1:
		w.note("the daemon of %s ends, its sessions close", n.name)
		n.speaks = false
		w.speaker.endPeer(n.name, routing.CauseConnection)
	case 2:
		w.note("the daemon of %s restarts", n.name)
		w.speaker.endPeer(n.name, routing.CauseConnection)
	case 3:
		w.note("%s loses power", n.name)
		n.powered, n.speaks, n.since = false, false, time.Now()
	case 4:
		w.note("the daemon of %s ends, then it loses power", n.name)
		n.powered, n.speaks, n.since = false, false, time.Now()
		w.speaker.endPeer(n.name, routing.CauseConnection)
	case 5:
		w.note("a session with %s ends by a NOTIFICATION", n.name)
		w.speaker.endPeer(n.name, routing.CauseError)
	}
	w.look()
}

func (w *world) peerReturns() {
	for _, n := range w.nodes {
		if n.name != self && (!n.powered || !n.speaks) {
			n.offers = []int{10, 10, 5, 0}[w.pick(4)]
			w.note("%s is back, and offers a restart time of %d s", n.name, n.offers)
			n.powered, n.speaks, n.since = true, true, time.Now()
			w.look()
			return
		}
	}
}

// peerSays lets a peer withdraw its pod CIDRs, announce them again, or announce
// what is not its own.
func (w *world) peerSays() {
	n := w.somePeer()
	if n == nil {
		return
	}
	f := routing.Families[w.pick(2)]
	if w.pick(2) == 0 {
		n.silent[f] = !n.silent[f]
		w.note("%s announces its %s pod CIDR: %v", n.name, f, !n.silent[f])
	} else {
		lies := []string{"0.0.0.0/0", "10.244.1.0/24", "10.244.3.0/24", "10.244.2.64/26", "10.244.9.0/24", "10.46.0.0/24", "192.0.2.0/24"}
		if f == routing.IPv6 {
			lies = []string{"::/0", "fd00:10:244:1::/64", "fd00:10:244:3::/64", "fd00:10:244:2:8000::/66", "fd00:10:244:9::/64", "fd00:46::/64", "2001:db8::/32"}
		}
		p := routing.Path{Prefix: prefix(lies[w.pick(len(lies))]), NextHop: podAddr(n.n, f)}
		if w.pick(4) == 0 {
			p = routing.Path{Prefix: n.says.PodCIDRs[f/6%2], NextHop: podAddr(n.n+50, f)}
		}
		n.extra[f] = append(n.extra[f], p)
		w.note("%s announces %s via %s", n.name, p.Prefix, p.NextHop)
	}
	w.speaker.say(n.name)
	w.look()
}

func (w *world) speakerDies() {
	w.note("the speaker crashes")
	w.speaker.crash()
	w.look()
}

// nodeChanges adds, removes or renumbers a node.
func (w *world) nodeChanges() {
	switch w.pick(5) {
	case 0, 1:
		if w.highest < 6 {
			w.highest++
			w.nodes = append(w.nodes, newNode(w.highest))
			w.note("node k8s-%d is added", w.highest)
			w.cni()
		}
	case 2:
		if n := w.somePeer(); n != nil {
			w.note("node %s is removed", n.name)
			w.nodes = slices.DeleteFunc(w.nodes, func(o *node) bool { return o == n })
			w.speaker.endPeer(n.name, routing.CauseConnection)
		}
	case 3:
		if n := w.somePeer(); n != nil && w.highest < 6 {
			w.highest++
			n.says.PodCIDRs = podCIDRs(w.highest)
			w.note("node %s has other pod CIDRs: %v", n.name, n.says.PodCIDRs)
			w.speaker.say(n.name)
			w.cni()
		}
	case 4:
		if n := w.somePeer(); n != nil {
			other := w.nodes[w.pick(len(w.nodes))]
			n.says.PodCIDRs = append(slices.Clone(n.says.PodCIDRs), other.says.PodCIDRs[w.pick(len(other.says.PodCIDRs))])
			w.note("node %s claims %v", n.name, n.says.PodCIDRs)
			w.contested = w.contested || n != other
		}
	}
	w.list()
	w.look()
}

// nodesVanish makes the inventory unreadable, or lose this node.
func (w *world) nodesVanish() {
	w.list()
	switch w.pick(3) {
	case 0:
		w.listed.Synced = false
		w.note("the inventory is not synced")
	case 1:
		w.listed.Nodes = slices.DeleteFunc(w.listed.Nodes, func(n routing.Node) bool { return n.Name == self })
		w.note("this node vanishes from the inventory")
	case 2:
		w.listed.Stale = "the API server is away"
		w.note("the inventory is stale")
	}
	w.look()
}

// nodesSync lets the inventory be read whole again.
func (w *world) nodesSync() {
	if w.listed.Synced && w.listed.Stale == "" && w.listed.Node(self) != nil {
		return
	}
	w.note("the inventory is synced")
	w.list()
	w.listed.Synced, w.listed.Stale = true, ""
	w.look()
}

func (w *world) annotation() {
	n := w.somePeer()
	if n == nil {
		return
	}
	f := routing.Families[w.pick(2)]
	key := "net.renner.uno/pod0-v" + f.String()[3:]
	value := []string{"", "nonsense", "10.48.0.1", "fd00:48::1", podAddr(n.n, f).String()}[w.pick(5)]
	n.says.Annotations = maps.Clone(n.says.Annotations)
	if n.says.Annotations[key] = value; value == "" {
		delete(n.says.Annotations, key)
	}
	w.note("%s is annotated %s=%q", n.name, key, value)
	w.list()
	w.look()
}
