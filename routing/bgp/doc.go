// Package bgp is the speaker: GoBGP in a process of its own, told what to do
// over a socket pair and telling what its peers say.
//
// GoBGP v3 can be crashed by a configured peer, so nothing here holds anything
// that the daemon needs to keep, and the process holds no privilege but to bind
// a low port. Its Loc-RIB is closed: only what we originate gets in, and each
// neighbour is sent only what is addressed to it. What peers announce is read
// from their Adj-RIB-In.
package bgp
