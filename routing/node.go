package routing

import (
	"net/netip"
	"time"
)

// Node is what the inventory knows of one node.
type Node struct {
	Name        string
	PodCIDRs    []netip.Prefix
	InternalIPs []netip.Addr
	Annotations map[string]string

	// What only the Kubernetes API knows; a nodes file leaves them zero.
	UID       string
	NotReady  bool // its Ready condition is not True
	Cordoned  bool // spec.unschedulable
	Protected bool // it matches drain.protect.selector
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
	// AsOf is when the source last stood by these nodes, where they are older
	// ones: from the copy on disk, or of a server that is away. Zero: now.
	AsOf time.Time

	// Services are those of type LoadBalancer, by name; read only where the
	// configuration advertises them. While they are not synced, no announcement
	// that is up is taken back because of them.
	Services       []Service
	ServicesSynced bool
	ServicesStale  string // why the newest read failed; empty: nothing is wrong
	// Drain is the lock of the cluster's drains; nil: there is none, or it has not
	// been read yet.
	Drain *DrainLease
}

// Known reports whether there is anything to go by: the source has been read, or
// the copy on disk stands in for it until then. Only the former says what is gone.
func (i *Inventory) Known() bool { return i.Synced || len(i.Nodes) > 0 && !i.AsOf.IsZero() }

// Node returns the node of that name, or nil.
func (i *Inventory) Node(name string) *Node {
	for n := range i.Nodes {
		if i.Nodes[n].Name == name {
			return &i.Nodes[n]
		}
	}
	return nil
}
