package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// limits leave room for ten thousand nodes with a page of annotations each.
var limits = strictyaml.Limits{Bytes: 32 << 20, Tokens: 1_000_000}

// Problems are all things wrong with a nodes file, by place.
type Problems = strictyaml.Problems

// Parse reads a nodes file's content. The nodes are sorted by name; they are
// nil when there are errors.
func Parse(name string, data []byte) ([]routing.Node, Problems) {
	doc := strictyaml.Parse(name, data, limits)
	if doc.Root == nil {
		problems := doc.Problems()
		if len(problems) == 0 {
			problems = Problems{{File: name, Message: "nodes file is empty; write `nodes: []` if there are none"}}
		}
		return nil, problems
	}
	nodes := readNodes(doc.Root)
	problems := doc.Problems()
	if len(problems.Errors()) > 0 {
		return nil, problems
	}
	return nodes, problems
}

func readNodes(root *strictyaml.Node) []routing.Node {
	m := root.Map()
	list := m.Require("nodes")
	m.Done()
	nodes := []routing.Node{}
	taken := map[string]named{}
	for _, item := range list.List() {
		nodes = append(nodes, readNode(item, taken))
	}
	slices.SortFunc(nodes, func(a, b routing.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// named is a node's name as it was first met.
type named struct {
	name string
	line int
}

func readNode(item *strictyaml.Node, taken map[string]named) routing.Node {
	m := item.Map()
	nameNode := m.Require("name")
	node := routing.Node{
		Name:        readName(nameNode, taken),
		PodCIDRs:    readPodCIDRs(m.Get("podCIDRs")),
		InternalIPs: readInternalIPs(m.Get("internalIPs")),
	}
	if annotations := m.Get("annotations").Map(); annotations.OK() {
		node.Annotations = make(map[string]string, len(annotations.Fields()))
		for _, f := range annotations.Fields() {
			if f.Name == "" {
				f.Errorf("an annotation needs a name")
			}
			node.Annotations[f.Name] = f.Value.Text("")
		}
	}
	m.Done()
	return node
}

// readName reads a node's name, which is compared exactly. Two that differ in
// case alone are one node misspelt: Kubernetes has lower case only.
func readName(n *strictyaml.Node, taken map[string]named) string {
	name := n.Text("")
	if !n.IsText() {
		return ""
	}
	if name == "" || len(name) > 253 || strings.ContainsFunc(name, notInNames) {
		n.Errorf("%q is no valid name of a node: want 1 to 253 letters, digits, dots and -", name)
		return name
	}
	folded := strings.ToLower(name)
	if first, twice := taken[folded]; !twice {
		taken[folded] = named{name, n.Line}
	} else if first.name == name {
		n.Errorf("duplicate node %q; it is on line %d already", name, first.line)
	} else {
		n.Errorf("node %q differs from %q on line %d in upper and lower case alone", name, first.name, first.line)
	}
	return name
}

func notInNames(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_')
}

// readPodCIDRs reads networks in the file's order: the first of a family is the
// node's first. What other nodes claim is for the planner to compare.
func readPodCIDRs(n *strictyaml.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, item := range n.List() {
		p, ok := item.Prefix()
		if !ok {
			continue
		}
		if i := slices.IndexFunc(out, p.Overlaps); i < 0 {
			out = append(out, p)
		} else if out[i] == p {
			item.Errorf("duplicate pod CIDR %s", p)
		} else {
			item.Errorf("pod CIDR %s overlaps %s of the same node", p, out[i])
		}
	}
	return out
}

func readInternalIPs(n *strictyaml.Node) []netip.Addr {
	var out []netip.Addr
	for _, item := range n.List() {
		a, ok := item.Addr()
		if !ok {
			continue
		}
		if slices.Contains(out, a) {
			item.Errorf("duplicate InternalIP %s", a)
			continue
		}
		out = append(out, a)
	}
	return out
}
