package strictyaml

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// mostProblems bounds how many problems of one file are kept.
const mostProblems = 200

// Limits bound what a file may cost.
type Limits struct {
	Bytes  int
	Tokens int
}

// Document is a file that was read, and what is wrong with it.
type Document struct {
	// Root is the document's value; nil when the file is empty, has comments
	// only, or is not YAML (then there are problems).
	Root *Node

	name     string
	text     string
	starts   []int // offset of each line
	problems Problems
	dropped  int
}

// Parse reads a file's content. It never fails: see Problems.
func Parse(name string, data []byte, limits Limits) *Document {
	d := &Document{name: name}
	if len(data) > limits.Bytes {
		d.add(0, 0, Problem{Message: fmt.Sprintf("file is larger than %d bytes", limits.Bytes)})
		return d
	}
	d.text = normalize(data)
	d.starts = lineStarts(d.text)
	if !d.checkCharacters() {
		return d
	}
	d.parse(limits)
	return d
}

// Problems returns everything reported so far, in the order of places.
func (d *Document) Problems() Problems {
	out := append(Problems(nil), d.problems...)
	out.sort()
	if d.dropped > 0 {
		out = append(out, Problem{File: d.name, Message: fmt.Sprintf("%d more problems are not shown", d.dropped)})
	}
	return out
}

// normalize drops a byte order mark and turns every line end into "\n". That
// changes no line number and no column.
func normalize(data []byte) string {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return text
}

func lineStarts(text string) []int {
	starts := []int{0}
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// line returns the source line without its end; "" when there is none.
func (d *Document) line(n int) string {
	if n < 1 || n > len(d.starts) {
		return ""
	}
	from, to := d.starts[n-1], len(d.text)
	if n < len(d.starts) {
		to = d.starts[n] - 1
	}
	return d.text[from:to]
}

// checkCharacters refuses what YAML does not allow in a stream (1.2.2 §5.1).
func (d *Document) checkCharacters() bool {
	line, column := 1, 1
	for i, r := range d.text {
		var message string
		switch {
		case r == '\n':
			line, column = line+1, 1
			continue
		case r == utf8.RuneError && !strings.HasPrefix(d.text[i:], "\ufffd"):
			message = "file is not valid UTF-8"
		case r < ' ' && r != '\t', r == 0x7f, r >= 0x80 && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			message = fmt.Sprintf("control character %U is not allowed", r)
		}
		if message != "" {
			d.add(line, column, Problem{Message: message})
			return false
		}
		column++
	}
	return true
}

func (d *Document) add(line, column int, p Problem) {
	if len(d.problems) >= mostProblems && p.IsError() {
		d.dropped++
		return
	}
	if len(d.problems) >= 2*mostProblems {
		return
	}
	p.File, p.Line, p.Column, p.Source = d.name, line, column, strings.ToValidUTF8(d.line(line), "\ufffd")
	d.problems = append(d.problems, p)
}
