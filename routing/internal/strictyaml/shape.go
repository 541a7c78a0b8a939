package strictyaml

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// The shape of sane files. The parser recurses once per level and once per key
// of a block mapping, and copies a mapping's keys that often: its cost grows
// with the square of both.
const (
	deepest  = 32
	mostKeys = 1000
)

// shape follows the nesting of the tokens it is given.
type shape struct {
	flow  int     // open brackets and braces
	block []level // open block collections, outermost first
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
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		s.flow++
	case token.MappingEndType, token.SequenceEndType:
		s.flow = max(0, s.flow-1)
	case token.SequenceEntryType:
		if s.flow == 0 {
			s.open(t.Position.Column, true)
		}
	case token.MappingValueType:
		if s.flow == 0 && previous != nil {
			if s.open(previous.Position.Column, false) > mostKeys {
				return fmt.Sprintf("a mapping may have at most %d keys", mostKeys)
			}
		}
	}
	if s.flow+len(s.block) > deepest {
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
