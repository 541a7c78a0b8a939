package strictyaml

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// The shape of sane files. The parser recurses once per level and once per key
// of a block mapping, copies a mapping's keys that often, and moves all later
// tokens for each value that is left empty: its cost grows with the square of
// all three.
const (
	deepest   = 32
	mostKeys  = 1000
	mostEmpty = 1000
)

// shape follows the nesting of the tokens it is given.
type shape struct {
	flow  []bracket // open brackets and braces, outermost first
	block []level   // open block collections, outermost first
	empty int       // values left empty
}

// bracket is one open flow collection.
type bracket struct {
	mapping bool
	colon   bool // since the last comma
}

// level is one open block collection: its column, and for a mapping its keys.
type level struct {
	column   int
	sequence bool
	keys     int
}

// add takes the next token, and the one before it, and returns what is wrong
// with the shape, or "".
func (s *shape) add(previous, t *token.Token) string {
	if s.leavesEmpty(previous, t) {
		if s.empty++; s.empty > mostEmpty {
			return fmt.Sprintf("more than %d values are empty", mostEmpty)
		}
	}
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		s.flow = append(s.flow, bracket{mapping: t.Type == token.MappingStartType})
	case token.MappingEndType, token.SequenceEndType:
		s.flow = s.flow[:max(0, len(s.flow)-1)]
	case token.CollectEntryType:
		if n := len(s.flow); n > 0 {
			s.flow[n-1].colon = false
		}
	case token.SequenceEntryType:
		if len(s.flow) > 0 { // the parser would take it, and recurse
			return "a list of dashes cannot stand inside brackets or braces"
		}
		s.open(t.Position.Column, true)
	case token.MappingValueType:
		if n := len(s.flow); n > 0 {
			s.flow[n-1].colon = true
		} else if previous != nil && s.open(previous.Position.Column, false) > mostKeys {
			return fmt.Sprintf("a mapping may have at most %d keys", mostKeys)
		}
	}
	if len(s.flow)+len(s.block) > deepest {
		return fmt.Sprintf("nested deeper than %d levels", deepest)
	}
	return ""
}

// open notes an entry of a block collection at the column and returns how many
// keys that mapping has.
func (s *shape) open(column int, sequence bool) int {
	for len(s.block) > 0 && s.block[len(s.block)-1].column > column {
		s.block = s.block[:len(s.block)-1]
	}
	if n := len(s.block); n == 0 || s.block[n-1].column < column || s.block[n-1].sequence != sequence {
		// A sequence may stand at the column of the key it belongs to, and
		// ends where that mapping's next key comes.
		if n > 1 && !sequence && s.block[n-1].column == column && s.block[n-2].column == column {
			s.block = s.block[:n-1]
		} else {
			s.block = append(s.block, level{column: column, sequence: sequence})
		}
	}
	top := &s.block[len(s.block)-1]
	top.keys++
	return top.keys
}

// leavesEmpty reports whether t shows that the entry before it has no value.
func (s *shape) leavesEmpty(previous, t *token.Token) bool {
	if previous == nil || t.Type == token.CommentType {
		return false
	}
	if n := len(s.flow); n > 0 {
		ends := t.Type == token.CollectEntryType || t.Type == token.MappingEndType || t.Type == token.SequenceEndType
		return ends && (previous.Type == token.MappingValueType || s.flow[n-1].mapping && !s.flow[n-1].colon)
	}
	if previous.Type != token.SequenceEntryType && previous.Type != token.MappingValueType || len(s.block) == 0 {
		return false
	}
	top := s.block[len(s.block)-1]
	deeper := t.Position.Column > top.column
	list := !top.sequence && t.Position.Column == top.column && t.Type == token.SequenceEntryType
	return t.Position.Line != previous.Position.Line && !deeper && !list
}
