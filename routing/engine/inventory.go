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
	if last == nil || !fresh.Synced {
		return fresh
	}
	kept := *fresh
	kept.Nodes = slices.Clone(fresh.Nodes)
	keys := addressKeys(cfg)
	for i := range kept.Nodes {
		if old := last.Node(kept.Nodes[i].Name); old != nil {
			e.keepAnnotations(&kept.Nodes[i], old, keys)
		}
	}
	if old := last.Node(self); old != nil && kept.Node(self) == nil {
		e.conditions.add("inventory", "OwnNodeGone", fmt.Sprintf("node %q is no longer in %s: its last state is kept", self, fresh.Source))
		kept.Nodes = append(kept.Nodes, *old)
		slices.SortFunc(kept.Nodes, func(a, b routing.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	return &kept
}

func (e *Engine) keepAnnotations(n, old *routing.Node, keys []string) {
	for _, key := range keys {
		text, ok := n.Annotations[key]
		if !ok || readable(text) || !readable(old.Annotations[key]) {
			continue
		}
		e.conditions.add("node/"+n.Name, "BadAnnotation",
			fmt.Sprintf("annotation %s of %s is not an address: %q; the last good value %s is kept", key, n.Name, clip(text), old.Annotations[key]))
		n.Annotations = maps.Clone(n.Annotations)
		n.Annotations[key] = old.Annotations[key]
	}
}

func readable(text string) bool {
	_, err := netip.ParseAddr(strings.TrimSpace(text))
	return err == nil
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// addressKeys returns the annotations that the configuration reads addresses
// from.
func addressKeys(cfg *routing.Config) []string {
	var keys []string
	add := func(refs routing.PerFamily[routing.AddressRef]) {
		for _, f := range routing.Families {
			if key := refs.Of(f).Annotation; key != "" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	if cfg.Cluster != nil {
		for _, a := range cfg.Cluster.Addresses {
			add(a.Ref)
		}
	}
	for i := range cfg.Tables {
		if d := cfg.Tables[i].Routes.Default; d != nil {
			add(d.Gateway)
		}
	}
	if cfg.BGP != nil {
		for i := range cfg.BGP.Upstreams {
			add(cfg.BGP.Upstreams[i].Address)
		}
	}
	return keys
}
