// Package routing is the vocabulary of netclass: plain values that every other
// package speaks in, and no behaviour beyond what a value can say of itself.
//
// It imports the standard library only. Addresses and prefixes are netip values;
// links are named, never numbered, because an index dies with its link while
// the operator's intent does not.
package routing
