package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a file, with its place. It is an error
// unless Warning is set.
type Problem struct {
	File         string
	Line, Column int // from 1; Column counts characters; 0: the file as a whole
	Source       string
	Message      string
	Warning      bool // the file can be used, but hardly does what it should
}

// IsError reports whether the problem makes the file unusable.
func (p Problem) IsError() bool { return !p.Warning }

// Kind is "error" or "warning".
func (p Problem) Kind() string {
	if p.Warning {
		return "warning"
	}
	return "error"
}

// Brief gives the problem in one line: file:line:column: message.
func (p Problem) Brief() string { return p.place() + p.Message }

// String gives the problem in the form of compilers: the place, the source
// line, and a caret under the column.
func (p Problem) String() string {
	head := p.place() + p.Kind() + ": " + p.Message
	if p.Line == 0 {
		return head
	}
	source, caret := excerpt(p.Source, p.Column)
	return head + "\n" + source + "\n" + caret
}

func (p Problem) place() string {
	if p.Line == 0 {
		return p.File + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
}

// widest is how many characters of a source line are shown.
const widest = 160

// excerpt cuts a long source line to the part around the column and makes the
// line that puts a caret below it. Tabs are copied, so that both lines indent
// alike.
func excerpt(source string, column int) (line, caret string) {
	runes := []rune(source)
	at := max(0, min(column-1, len(runes)))
	if len(runes) > widest {
		from := max(0, at-widest/2)
		to := min(len(runes), from+widest)
		runes, at = runes[from:to], at-from
	}
	var b strings.Builder
	for _, r := range runes[:at] {
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteByte('^')
	return string(runes), b.String()
}

// Problems are the problems of one file, in the order of their places.
type Problems []Problem

// Errors returns the problems that make the file unusable.
func (ps Problems) Errors() Problems { return ps.filter(Problem.IsError) }

// Warnings returns the problems that do not.
func (ps Problems) Warnings() Problems {
	return ps.filter(func(p Problem) bool { return p.Warning })
}

// Error gives every problem with its place and source line.
func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// Brief gives every problem in one line each.
func (ps Problems) Brief() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.Brief()
	}
	return strings.Join(texts, "\n")
}

func (ps Problems) filter(keep func(Problem) bool) Problems {
	var out Problems
	for _, p := range ps {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
