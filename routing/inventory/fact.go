package inventory

import (
	"maps"
	"slices"

	"netclass.dev/routing"
)

// part is a part of the inventory: it can be read, or not, whatever becomes of
// the others.
type part uint8

// The parts.
const (
	ofNodes part = iota
	ofServices
	ofDrain
	parts // how many there are
)

var partNames = [...]string{"nodes", "services", "drain lease"}

func (p part) String() string { return partNames[p] }

// fact is what is used of one object. It does not change.
type fact interface {
	// same reports whether the other, of the same resource, says the same.
	same(other fact) bool
}

func sameFact(a, b fact) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.same(b)
}

// nodeFact is what an object says of the node of that name.
type nodeFact routing.Node

func (n *nodeFact) same(other fact) bool {
	return equalNode(routing.Node(*n), routing.Node(*other.(*nodeFact)))
}

func equalNode(a, b routing.Node) bool {
	return a.Name == b.Name && a.UID == b.UID && a.NotReady == b.NotReady && a.Cordoned == b.Cordoned && a.Protected == b.Protected &&
		slices.Equal(a.PodCIDRs, b.PodCIDRs) && slices.Equal(a.InternalIPs, b.InternalIPs) && maps.Equal(a.Annotations, b.Annotations)
}
