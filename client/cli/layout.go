package cli

import (
	"slices"
	"strings"
	"unicode/utf8"
)

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
	l := a.arrange(cols, keep, rows)
	var b strings.Builder
	for _, r := range rows {
		for n, group := range l.groups {
			if n == 0 || slices.ContainsFunc(group, func(i int) bool { return r[i].text != dash }) {
				a.printGroup(&b, l, cols, group, r, n > 0)
			}
		}
	}
	a.say("%s", b.String())
}

// printGroup writes the columns of a row that stand beside each other: on one line,
// or on as many as its longest text is wrapped into.
func (a *app) printGroup(b *strings.Builder, l layout, cols []column, group []int, r []cell, indented bool) {
	texts, lines := make([][]string, len(group)), 1
	for n, i := range group {
		switch text := r[i].text; {
		case utf8.RuneCountInString(text) <= l.widths[i] || cols[i].fit == whole:
			texts[n] = []string{text}
		case a.cuts(cols[i]):
			texts[n] = []string{shorten(text, l.widths[i])}
		default:
			texts[n] = wrapped(text, l.widths[i])
		}
		lines = max(lines, len(texts[n]))
	}
	for line := range lines {
		var pending strings.Builder // blanks that count only if something follows
		if indented {
			pending.WriteString(strings.Repeat(" ", indent))
		}
		for n, i := range group {
			text := ""
			if line < len(texts[n]) {
				text = texts[n][line]
			}
			blank := strings.Repeat(" ", max(l.widths[i]-utf8.RuneCountInString(text), 0))
			if cols[i].right {
				pending.WriteString(blank)
			}
			if text != "" {
				b.WriteString(pending.String())
				pending.Reset()
				b.WriteString(a.paint(cell{text, r[i].tone}))
			}
			if !cols[i].right {
				pending.WriteString(blank)
			}
			pending.WriteString(l.gap)
		}
		b.WriteByte('\n')
	}
}

// cuts reports whether a column is shortened where there is no room. In the wide
// view nothing ever is.
func (a *app) cuts(c column) bool { return c.fit == cut && a.format != formatWide }

// Where a table is wider than the terminal.
const (
	leastText = 20 // the room that a column of text should have
	indent    = 4  // of a row's second line and those after it
)

// layout is how a table stands on the lines of a terminal.
type layout struct {
	gap    string
	widths []int
	groups [][]int // the columns of each line of a row
}

// arrange makes a table fit the terminal, if there is one: columns move together,
// then those of text are wrapped or cut, and where all that does not do, a row takes
// several lines. Nothing is broken within a word.
func (a *app) arrange(cols []column, keep []int, rows [][]cell) layout {
	l := layout{gap: "  ", widths: make([]int, len(cols)), groups: [][]int{keep}}
	least := make([]int, len(cols))
	for _, i := range keep {
		for _, r := range rows {
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(r[i].text))
			if cols[i].fit == wrap || cols[i].fit == cut && !a.cuts(cols[i]) {
				least[i] = max(least[i], longestWord(r[i].text))
			}
		}
		least[i] = min(max(least[i], leastText, len(cols[i].header)), l.widths[i])
		if cols[i].fit == whole {
			least[i] = l.widths[i]
		}
	}
	if a.env.Width == 0 {
		return l
	}
	for _, gap := range []string{"  ", " "} {
		if widths := narrowed(l.widths, least, keep, a.env.Width-len(gap)*(len(keep)-1)); widths != nil {
			return layout{gap, widths, l.groups}
		}
	}
	return a.stack(l, least, keep)
}

// narrowed takes what columns are wider than a room together from the widest that
// can give it; nil: they cannot.
func narrowed(widths, least, keep []int, room int) []int {
	widths = slices.Clone(widths)
	over := -room
	for _, i := range keep {
		over += widths[i]
	}
	for over > 0 {
		widest := -1
		for _, i := range keep {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil
		}
		take := min(over, widths[widest]-least[widest])
		widths[widest] -= take
		over -= take
	}
	return widths
}

// stack puts the columns of a row on as many lines as they need.
func (a *app) stack(l layout, least, keep []int) layout {
	l.groups = nil
	left := 0
	for _, i := range keep {
		room := left - len(l.gap)
		if room < min(l.widths[i], max(least[i], 2*leastText)) {
			room = a.env.Width
			if len(l.groups) > 0 {
				room -= indent
			}
			l.groups = append(l.groups, nil)
		}
		if least[i] < l.widths[i] { // a text
			l.widths[i] = min(l.widths[i], max(room, least[i]))
		}
		last := len(l.groups) - 1
		l.groups[last] = append(l.groups[last], i)
		left = room - l.widths[i]
	}
	return l
}

// shorten cuts a text to a number of characters.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(most-1, 0)]) + "…"
}

// wrapped breaks a text into lines: at spaces, else behind commas, and within a word
// only if that alone is longer than a line.
func wrapped(s string, width int) []string {
	var lines []string
	runes := []rune(s)
	for len(runes) > width {
		at := width
		for i := width; i > 0; i-- {
			if runes[i] == ' ' || breaks(runes, i) {
				at = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(runes[:at]), " "))
		runes = []rune(strings.TrimLeft(string(runes[at:]), " "))
	}
	return append(lines, string(runes))
}

// breaks reports whether a line may begin at a character that follows no space: in a
// list of prefixes.
func breaks(runes []rune, i int) bool { return i > 0 && runes[i-1] == ',' && runes[i] != ' ' }

// longestWord is the length of the longest part that wrapped would not break.
func longestWord(s string) int {
	longest, word := 0, 0
	runes := []rune(s)
	for i, r := range runes {
		if breaks(runes, i) {
			word = 0
		}
		if word++; r == ' ' {
			word = 0
		}
		longest = max(longest, word)
	}
	return longest
}
