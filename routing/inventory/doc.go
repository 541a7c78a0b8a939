// Package inventory knows the nodes of the cluster: their pod CIDRs, addresses
// and annotations, as a routing.Inventory that is replaced as a whole.
//
// A source that cannot be read, or whose content is broken, never makes an
// empty inventory: the last good one stays, marked as stale with the reason.
package inventory
