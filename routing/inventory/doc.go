// Package inventory knows the nodes of the cluster: their pod CIDRs, addresses
// and annotations, as a routing.Inventory that is replaced as a whole. Of the
// Kubernetes API it also has the Services whose addresses are announced, with the
// nodes that serve them, and the Lease that lets one node be drained at a time.
//
// A source that cannot be read, or whose content is broken, never makes an
// empty inventory: the last good one stays, marked as stale with the reason. That
// is so for each part of it by itself: a Lease that must not be read makes no node
// stale.
package inventory
