package plan

import (
	"fmt"
	"strings"
	"time"
)

// hold decides whether anything may be deleted at all. What has not been read
// is not known to be gone.
func (m *maker) hold() {
	if m.cfg.Cluster == nil {
		return
	}
	switch inv := m.in.Inventory; {
	case !inv.Synced && inv.Known():
		m.plan.Hold = "the inventory has not been read yet; a copy stands in for it"
		m.condition("inventory", "NotSynced", "%d nodes are known from a copy of %s%s: nothing is deleted",
			len(inv.Nodes), inv.AsOf.UTC().Format(time.RFC3339), because(inv.Stale))
	case !inv.Synced:
		m.plan.Hold = "the inventory has not been read yet"
		m.condition("inventory", "NotSynced", "no nodes are known yet%s: nothing is deleted", because(inv.Stale))
	case m.self == nil:
		m.plan.Hold = fmt.Sprintf("node %q is not in the inventory", m.in.Node)
		m.condition("inventory", "OwnNodeMissing", "node %q is not in %s: nothing is deleted, what it had stays, and new rules wait; %s", m.in.Node, inv.Source, m.namesake())
	}
	if m.in.Inventory.Synced && m.in.Inventory.Stale != "" {
		m.condition("inventory", "Stale", "the last good copy is in use: %s", m.in.Inventory.Stale)
	}
}

// namesake says what to do where this node is not in the inventory, and names the
// node that it is most likely meant to be: names are compared exactly.
func (m *maker) namesake() string {
	short := func(name string) string { first, _, _ := strings.Cut(strings.ToLower(name), "."); return first }
	var names []string
	for i := range m.nodes {
		name := m.nodes[i].Name
		switch {
		case strings.EqualFold(name, m.in.Node):
			return fmt.Sprintf("there is %q, which differs in upper and lower case: set `node: %s`", name, name)
		case short(name) == short(m.in.Node):
			return fmt.Sprintf("there is %q: if that is meant, set `node: %s` or start netclassd with --node %s", name, name, name)
		}
		names = append(names, name)
	}
	what := "add it there, or say who this node is by `node:` in the configuration or --node"
	if len(names) > 0 {
		what += " (there are " + some(names) + ")"
	}
	return what
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}
