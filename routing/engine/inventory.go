package engine

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// keepGood returns the inventory with what was good of the last one: a node's
// annotation that has become unreadable keeps its last good value, and this
// node itself does not vanish.
func (e *Engine) keepGood(cfg *routing.Config, self string, fresh *routing.Inventory) *routing.Inventory {
	last := e.inventory
	if last == nil || cfg.Cluster == nil {
		return fresh
	}
	kept := *fresh
	if !fresh.Synced {
		// A source that has not been read yet says nothing of the nodes that
		// another has told of: their sessions and paths stay.
		if len(last.Nodes) > 0 {
			kept.Nodes = last.Nodes
		}
		return &kept
	}
	kept.Nodes = slices.Clone(fresh.Nodes)
	keys := cfg.AddressKeys()
	known := make(map[string]*routing.Node, len(last.Nodes))
	for i := range last.Nodes {
		known[last.Nodes[i].Name] = &last.Nodes[i]
	}
	for i := range kept.Nodes {
		if old := known[kept.Nodes[i].Name]; old != nil {
			e.keepAnnotations(&kept.Nodes[i], old, keys)
		}
	}
	if old := known[self]; old != nil && kept.Node(self) == nil {
		e.conditions.add("inventory", "OwnNodeGone", fmt.Sprintf("node %q is no longer in %s: its last state is kept", self, fresh.Source))
		kept.Nodes = append(kept.Nodes, *old)
		slices.SortFunc(kept.Nodes, func(a, b routing.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	return &kept
}

func (e *Engine) keepAnnotations(n, old *routing.Node, keys []routing.AddressKey) {
	for _, k := range keys {
		key := k.Annotation
		text, ok := n.Annotations[key]
		if !ok || text == old.Annotations[key] || readable(text, k.Family) || !readable(old.Annotations[key], k.Family) {
			continue
		}
		e.conditions.add("node/"+n.Name, "BadAnnotation",
			fmt.Sprintf("annotation %s of %s is not an %s address: %q; the last good value %s is kept", key, n.Name, k.Family, clip(text), old.Annotations[key]))
		n.Annotations = maps.Clone(n.Annotations)
		n.Annotations[key] = old.Annotations[key]
	}
}

func readable(text string, f routing.Family) bool {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	return err == nil && a.IsGlobalUnicast() && a.Zone() == "" && !a.Is4In6() && routing.FamilyOf(a) == f
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
