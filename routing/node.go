package routing

import "net/netip"

// Node is what the inventory knows of one node.
type Node struct {
	Name        string
	PodCIDRs    []netip.Prefix
	InternalIPs []netip.Addr
	Annotations map[string]string
}

// InternalIP returns the node's first InternalIP of the family, or the zero
// address.
func (n *Node) InternalIP(f Family) netip.Addr {
	for _, a := range n.InternalIPs {
		if FamilyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// Inventory is what is known of all nodes at one time.
type Inventory struct {
	Nodes  []Node // by name
	Synced bool   // it has been read whole at least once
	Source string // for people: "nodes file /etc/netclassd/nodes.yaml"
	Stale  string // why the newest read failed, when these are older nodes
}

// Node returns the node of that name, or nil.
func (i *Inventory) Node(name string) *Node {
	for n := range i.Nodes {
		if i.Nodes[n].Name == name {
			return &i.Nodes[n]
		}
	}
	return nil
}
