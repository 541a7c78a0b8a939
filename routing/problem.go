package routing

import (
	"fmt"
	"strings"
)

// Problem is one fault in a file that people write, with its place.
type Problem struct {
	File         string
	Line, Column int    // from 1; 0: the file as a whole
	Message      string // what is wrong, and what to write instead
	Source       string // the line itself
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Invalid is the error of a file that has faults: all of them at once.
type Invalid struct{ Problems []Problem }

func (e *Invalid) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
