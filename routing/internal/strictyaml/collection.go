package strictyaml

import "fmt"

// List returns the items of a list.
func (n *Node) List() []*Node {
	if n == nil {
		return nil
	}
	if n.kind != kindList {
		n.wrong("a list")
		return nil
	}
	return n.items
}

// Map returns a view of a mapping. It is never nil; of a value that is not
// there, or is no mapping, the view is empty and reports nothing more.
func (n *Node) Map() *Map {
	m := &Map{node: n}
	if n == nil {
		return m
	}
	if n.kind != kindMap {
		n.wrong("a mapping")
		return m
	}
	m.ok = true
	return m
}

// Map is a mapping whose keys are asked for one by one. A key that nobody asked
// for by the time of Done is unknown.
type Map struct {
	node  *Node
	ok    bool
	asked []string
}

// OK reports whether there is a mapping at all.
func (m *Map) OK() bool { return m.ok }

// Get returns the key's value, or nil.
func (m *Map) Get(key string) *Node {
	m.asked = append(m.asked, key)
	if !m.ok {
		return nil
	}
	for i := range m.node.fields {
		if m.node.fields[i].Name == key {
			return m.node.fields[i].Value
		}
	}
	return nil
}

// Require is Get, and reports a key that is missing.
func (m *Map) Require(key string) *Node {
	n := m.Get(key)
	if n == nil && m.ok {
		m.node.Errorf("missing key %q%s", key, m.where())
	}
	return n
}

func (m *Map) where() string {
	if m.node.Key == "" {
		return ""
	}
	return fmt.Sprintf(" of %s", m.node.Key)
}

// Fields returns all entries, for mappings whose keys are names. Done is not to
// be called then.
func (m *Map) Fields() []Field {
	if !m.ok {
		return nil
	}
	return m.node.fields
}

// Done reports the keys that nobody asked for.
func (m *Map) Done() {
	if !m.ok {
		return
	}
	asked := make(map[string]bool, len(m.asked))
	for _, a := range m.asked {
		asked[a] = true
	}
	for _, f := range m.node.fields {
		if !asked[f.Name] {
			f.Errorf("unknown key %q%s%s", f.Name, m.where(), DidYouMean(f.Name, m.asked))
		}
	}
}

// Errorf reports an error at the entry's key.
func (f Field) Errorf(format string, args ...any) {
	f.doc.add(f.Line, f.Column, Problem{Message: fmt.Sprintf(format, args...)})
}

// DidYouMean returns `; did you mean "x"?` for the nearest of the words, or ""
// when none is near.
func DidYouMean(word string, words []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, w := range words {
		if d := distance(word, w, least); d < least {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of letters to insert, delete, replace or swap to make
// b of a, upper and lower case being the same; at least enough ends the search.
func distance(a, b string, enough int) int {
	if len(a) > 64 || len(b) > 64 || max(len(a), len(b))-min(len(a), len(b)) >= enough {
		return enough
	}
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if lower(a[i-1]) == lower(b[j-1]) {
				cost = 0
			}
			row[j] = min(one[j]+1, row[j-1]+1, one[j-1]+cost)
			if i > 1 && j > 1 && lower(a[i-1]) == lower(b[j-2]) && lower(a[i-2]) == lower(b[j-1]) {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
