package plan

import (
	"fmt"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// waiting is an object of a table that is not there yet, and why.
type waiting struct{ what, why string }

// named is how many objects a summary names.
const named = 3

// summary says in one line what waits: the objects that wait for what the first
// one waits for, and how many others there are.
func summary(waits []waiting) string {
	var whats []string
	rest := 0
	for _, w := range waits {
		switch {
		case w.why != waits[0].why:
			rest++
		case !slices.Contains(whats, w.what):
			whats = append(whats, w.what)
		}
	}
	text := some(whats) + ": " + waits[0].why
	if rest > 0 {
		text += fmt.Sprintf("; and %d more", rest)
	}
	return text
}

// some joins the first few names and counts the others.
func some(names []string) string {
	if len(names) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
	}
	return strings.Join(names, ", ")
}

// waitingTables says what waits in the tables, unless a class or the inventory
// says it already.
func (m *maker) waitingTables() {
	said := map[string]bool{m.plan.Hold: true, selfUnknown: true}
	for i := range m.plan.Classes {
		if c := &m.plan.Classes[i]; c.Health == routing.Waiting {
			said[c.Reason] = true
		}
	}
	for i, waits := range m.waits {
		news := slices.DeleteFunc(slices.Clone(waits), func(w waiting) bool { return said[w.why] || said[w.what+": "+w.why] })
		if len(news) > 0 {
			m.condition("table/"+m.plan.Tables[i].Name, "Waiting", "%s", summary(news))
		}
	}
}
