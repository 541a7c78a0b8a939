// Package migrate does what docs/migrate-from-bird.md says: a cluster whose nodes
// are set up by hand, with rules and BIRD, becomes netclassd's node by node, and
// goes back again, under traffic that must not notice.
//
// The commands are read from the guide, and what they print is held against what
// the guide says that they print.
package migrate
