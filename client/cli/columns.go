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

// fit says what becomes of the last column where a terminal is too narrow.
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

// print writes a table.
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
	gap, room := a.squeeze(cols, keep, widths)
	var b strings.Builder
	for _, r := range rows {
		for _, i := range keep[:len(keep)-1] {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(r[i].text))
			if cols[i].right {
				b.WriteString(pad + a.paint(r[i]) + gap)
			} else {
				b.WriteString(a.paint(r[i]) + pad + gap)
			}
		}
		c := r[last]
		switch {
		case cols[last].right:
			b.WriteString(strings.Repeat(" ", widths[last]-utf8.RuneCountInString(c.text)) + a.paint(c))
		case room == 0:
			b.WriteString(a.paint(c))
		case cols[last].fit == cut:
			b.WriteString(a.paint(cell{shorten(c.text, room), c.tone}))
		default:
			indent := "\n" + strings.Repeat(" ", a.env.Width-room)
			b.WriteString(strings.Join(wrapped(c.text, room), indent))
		}
		b.WriteByte('\n')
	}
	a.say("%s", b.String())
}

// leastText is the room that a last column of text should have.
const leastText = 20

// squeeze decides how a table is made to fit a terminal: columns move together
// when nothing else helps, and room, unless 0, is what the last one has to do
// with. Elsewhere, and in the wide view, nothing is ever cut.
func (a *app) squeeze(cols []column, keep []int, widths []int) (gap string, room int) {
	if a.env.Width == 0 {
		return "  ", 0
	}
	last := keep[len(keep)-1]
	least := widths[last]
	if cols[last].fit != whole {
		least = min(least, leastText)
	}
	before := 0
	for _, i := range keep[:len(keep)-1] {
		before += widths[i]
	}
	gap = "  "
	if before+len(gap)*(len(keep)-1)+least > a.env.Width {
		gap = " "
	}
	room = a.env.Width - before - len(gap)*(len(keep)-1)
	if cols[last].fit == whole || (cols[last].fit == cut && a.format == formatWide) || room >= widths[last] || room < len(cols[last].header) {
		return gap, 0
	}
	return gap, room
}

// shorten cuts a text to a number of characters.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(most-1, 0)]) + "…"
}

// wrapped breaks a text into lines, at spaces where there are some.
func wrapped(s string, width int) []string {
	var lines []string
	runes := []rune(s)
	for len(runes) > width {
		at := width
		for i := width; i > width/2; i-- {
			if runes[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(runes[:at]))
		runes = []rune(strings.TrimLeft(string(runes[at:]), " "))
	}
	return append(lines, string(runes))
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
