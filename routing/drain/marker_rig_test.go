package drain_test

import (
	"slices"
	"time"
)

// propagation is how long a marker takes from node to node.
const propagation = 50 * time.Millisecond

// mark has the others hear a node's marker, or that it is withdrawn.
func (w *world) mark(n *node, on bool) {
	time.AfterFunc(propagation, func() {
		for _, o := range w.nodes {
			if live, _ := o.seen(); o != n && live != nil && live.heard(n.name, on) {
				live.look()
			}
		}
	})
}

// hello has a node and the others tell each other of their markers, as when their
// sessions come up.
func (w *world) hello(n *node) {
	w.news()
	if w.lease != nil {
		return
	}
	w.mark(n, n.engine.now().Marker)
	for _, o := range w.nodes {
		if live, _ := o.seen(); o != n && live != nil {
			w.mark(o, live.now().Marker)
		}
	}
}

// news has every node look at its sessions.
func (w *world) news() {
	time.AfterFunc(propagation, func() {
		for _, o := range w.nodes {
			if live, _ := o.seen(); live != nil {
				live.look()
			}
		}
	})
}

// heard takes in that a peer has a marker or not, and whether that is news.
func (e *engine) heard(name string, on bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.markers, name) == on {
		return false
	}
	e.markers = slices.DeleteFunc(slices.Clone(e.markers), func(s string) bool { return s == name })
	if on {
		e.markers = append(e.markers, name)
	}
	return true
}
