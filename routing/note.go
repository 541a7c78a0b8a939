package routing

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Notes are what a netclassd says of its node to the others of the mesh: large
// communities ASN:148:NOTE (RFC 8092) of its own pod CIDRs, and of the marker that it
// drains by. Nobody else heeds them.
// Whoever says none is older, another program, or announces no pod CIDR. As text they
// are numbers with a space between: "0 2271560481".
type Notes string

const (
	// NoteGlobal is the second number of such a community.
	NoteGlobal = 148
	// NoteRouters: the node says to which routers it announces, by one more note for
	// each session.
	NoteRouters uint32 = 0
	// NoteDrains: its Node is cordoned, and it is drained for that, or waits until that
	// is safe.
	NoteDrains uint32 = 1
	// NoteDraining and NoteUndraining are said with the marker: the node is not drained
	// yet, or no longer wholly. Without one of them it is: older ones say neither.
	NoteDraining   uint32 = 2
	NoteUndraining uint32 = 3
)

// NoteRouter returns the note of a node that announces something in an established
// session with a router. Nodes have the name of the router in common, and perhaps not
// its address.
func NoteRouter(k SessionKey) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.String()))
	return h.Sum32() | 1<<31 // the others are below
}

// NoteCommunity writes a note as a community.
func NoteCommunity(asn, note uint32) string {
	text := strconv.AppendUint(nil, uint64(asn), 10)
	text = strconv.AppendUint(append(text, ':'), NoteGlobal, 10)
	return string(strconv.AppendUint(append(text, ':'), uint64(note), 10))
}

// Has reports whether one of them is this.
func (n Notes) Has(note uint32) bool {
	want := strconv.FormatUint(uint64(note), 10)
	for text := range strings.FieldsSeq(string(n)) {
		if text == want {
			return true
		}
	}
	return false
}
