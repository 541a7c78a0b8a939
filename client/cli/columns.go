package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
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

// column is a column's header and shape.
type column struct {
	header string
	right  bool // numbers
	wide   bool // only with -o wide
}

// columns reads headers written as "NAME ID> +MTU>": a > at the end aligns to the
// right, a + at the beginning keeps the column for -o wide.
func columns(headers string) []column {
	var list []column
	for _, h := range strings.Fields(headers) {
		c := column{header: h}
		c.header, c.wide = strings.CutPrefix(c.header, "+")
		c.header, c.right = strings.CutSuffix(c.header, ">")
		list = append(list, c)
	}
	return list
}

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
			c.text = "-"
		}
		cells[i] = c
	}
	return cells
}

// print writes a table. On a terminal that is too narrow columns move together,
// and the last one is shortened when it is text.
func (a *app) print(cols []column, rows [][]cell) {
	var keep []int
	for i, c := range cols {
		if !c.wide || a.format == formatWide {
			keep = append(keep, i)
		}
	}
	if !a.noHeaders {
		headers := make([]cell, len(cols))
		for i, c := range cols {
			headers[i] = cell{text: c.header}
		}
		rows = append([][]cell{headers}, rows...)
	}
	widths := make([]int, len(cols))
	for _, r := range rows {
		for _, i := range keep {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
		}
	}
	last := keep[len(keep)-1]
	gap, room := "  ", 0
	if a.env.Width > 0 {
		before := 0
		for _, i := range keep[:len(keep)-1] {
			before += widths[i]
		}
		if before+2*(len(keep)-1)+widths[last] > a.env.Width {
			gap = " "
		}
		room = a.env.Width - before - len(gap)*(len(keep)-1)
	}
	var b strings.Builder
	for _, r := range rows {
		for n, i := range keep {
			if n > 0 {
				b.WriteString(gap)
			}
			c := r[i]
			if i == last && !cols[i].right && a.format != formatWide && room >= len(cols[i].header) {
				c.text = shorten(c.text, room)
			}
			pad := strings.Repeat(" ", widths[i]-min(widths[i], utf8.RuneCountInString(c.text)))
			switch {
			case cols[i].right:
				b.WriteString(pad + a.paint(c))
			case i == last:
				b.WriteString(a.paint(c))
			default:
				b.WriteString(a.paint(c) + pad)
			}
		}
		b.WriteByte('\n')
	}
	a.say("%s", b.String())
}

// shorten cuts a text to a number of characters.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(most-1, 0)]) + "…"
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
			a.say("%s%-*s  %s\n", indent, width, p.name, a.paint(cell{clean(p.value.text), p.value.tone}))
		}
	}
}
