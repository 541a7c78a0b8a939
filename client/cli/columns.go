package cli

import (
	"fmt"
	"strings"
)

// tone is what a word means to the reader, shown as a colour on a terminal.
type tone int

const (
	plain tone = iota
	good
	fair
	bad
	faint
)

var colours = map[tone]string{good: "\x1b[32m", fair: "\x1b[33m", bad: "\x1b[31m", faint: "\x1b[2m"}

// cell is one place of a table.
type cell struct {
	text string
	tone tone
}

// fit says what becomes of a column where a terminal is too narrow.
type fit int

const (
	whole fit = iota
	cut       // shortened
	wrap      // continued on the next line
)

// column is a column's header and shape.
type column struct {
	header string
	right  bool // numbers
	wide   bool // only with -o wide
	fit    fit
}

// columns reads headers written as "NAME ID> +MTU> REASON~": + keeps the column
// for -o wide, > aligns to the right, ~ allows to cut and | to wrap.
func columns(headers string) []column {
	var list []column
	for _, h := range strings.Fields(headers) {
		c := column{}
		h, c.wide = strings.CutPrefix(h, "+")
		h, c.right = strings.CutSuffix(h, ">")
		for suffix, f := range map[string]fit{"~": cut, "|": wrap} {
			if rest, found := strings.CutSuffix(h, suffix); found {
				h, c.fit = rest, f
			}
		}
		c.header = h
		list = append(list, c)
	}
	return list
}

// dash stands for what is empty.
const dash = "-"

// row makes cells of values; an empty one shows as a dash, so that columns can be
// counted.
func row(values ...any) []cell {
	cells := make([]cell, len(values))
	for i, v := range values {
		c, ok := v.(cell)
		if !ok {
			c = cell{text: fmt.Sprint(v)}
		}
		if c.text = clean(c.text); c.text == "" {
			c.text = dash
		}
		cells[i] = c
	}
	return cells
}

// paint colours a cell on a terminal, unless NO_COLOR is set or the terminal
// cannot.
func (a *app) paint(c cell) string {
	code := colours[c.tone]
	if code == "" || a.env.Width == 0 || a.env.Getenv("NO_COLOR") != "" || a.env.Getenv("TERM") == "dumb" {
		return c.text
	}
	return code + c.text + "\x1b[0m"
}

// say writes to the output. A write that fails has no reader to be told.
func (a *app) say(format string, args ...any) { _, _ = fmt.Fprintf(a.env.Out, format, args...) }

// footer sums a table up, on a terminal only.
func (a *app) footer(format string, args ...any) {
	if a.env.Width > 0 && !a.noHeaders {
		a.say("%s\n", a.paint(cell{fmt.Sprintf(format, args...), faint}))
	}
}

// pair is one line of a detailed view.
type pair struct {
	name  string
	value cell
}

// pairs writes "Name   value" lines, those with a value.
func (a *app) pairs(indent string, list []pair) {
	width := 0
	for _, p := range list {
		if p.value.text != "" {
			width = max(width, len(p.name))
		}
	}
	for _, p := range list {
		if p.value.text != "" {
			a.say("%s%-*s  ", indent, width, p.name)
			a.fold(cell{clean(p.value.text), p.value.tone}, len(indent)+width+2)
		}
	}
}

// fold ends a line that has come to a column with a text, continued below its
// beginning where the terminal ends.
func (a *app) fold(c cell, column int) {
	lines := []string{c.text}
	if room := a.env.Width - column; room >= leastText {
		lines = wrapped(c.text, room)
	}
	for i, l := range lines {
		if i > 0 {
			a.say("%*s", column, "")
		}
		a.say("%s\n", a.paint(cell{l, c.tone}))
	}
}
