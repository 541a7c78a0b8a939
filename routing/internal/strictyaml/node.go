package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

type kind uint8

const (
	kindNull kind = iota
	kindText
	kindInt
	kindBool
	kindFloat
	kindList
	kindMap
)

var kindNames = [...]string{"nothing", "text", "a number", "true or false", "a number with a fraction", "a list", "a mapping"}

func (k kind) String() string { return kindNames[k] }

// Node is one value of a document. The nil Node is a value that is not there:
// its getters return their defaults and report nothing.
type Node struct {
	Line, Column int
	// Key is the key the value stands at, or for an item its list's.
	Key string

	doc    *Document
	kind   kind
	text   string // scalars, as written
	items  []*Node
	fields []Field
}

// Field is one entry of a mapping, in the file's order.
type Field struct {
	Name         string
	Line, Column int
	Value        *Node

	doc *Document
}

// convert makes a Node of the parser's. Its recursion is bounded by the check
// of the shape.
func (d *Document) convert(from ast.Node, key string) *Node {
	n := &Node{doc: d, Key: key}
	if t := from.GetToken(); t != nil && t.Position != nil {
		n.Line, n.Column = t.Position.Line, t.Position.Column
	}
	switch v := from.(type) {
	case *ast.NullNode:
		n.kind = kindNull
		if t := v.GetToken(); t != nil && t.Type != token.ImplicitNullType {
			n.text = t.Value
		}
	case *ast.StringNode:
		n.kind, n.text = kindText, v.Value
	case *ast.LiteralNode:
		n.kind = kindText
		if v.Value != nil {
			n.text = v.Value.Value
		}
	case *ast.IntegerNode:
		n.kind, n.text = kindInt, v.GetToken().Value
	case *ast.FloatNode:
		n.kind, n.text = kindFloat, v.GetToken().Value
	case *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = kindFloat, from.GetToken().Value
	case *ast.BoolNode:
		n.kind = kindBool
		if v.Value {
			n.text = "true"
		}
	case *ast.SequenceNode:
		n.kind = kindList
		for _, item := range v.Values {
			if item != nil {
				n.items = append(n.items, d.convert(item, key))
			}
		}
	case *ast.MappingNode:
		d.convertFields(n, v.Values)
	case *ast.MappingValueNode:
		d.convertFields(n, []*ast.MappingValueNode{v})
	default:
		n.Errorf("%s is not supported here", strings.ToLower(from.Type().String()))
		return nil
	}
	return n
}

func (d *Document) convertFields(n *Node, values []*ast.MappingValueNode) {
	n.kind = kindMap
	first := make(map[string]int, len(values))
	for i, v := range values {
		f, ok := d.convertKey(v.Key)
		if !ok {
			continue
		}
		if i == 0 && n.Column > f.Column && n.Line == f.Line {
			n.Column = f.Column // the parser places a block mapping at its first colon
		}
		if line, twice := first[f.Name]; twice {
			d.add(f.Line, f.Column, Problem{Message: fmt.Sprintf("duplicate key %q; it is on line %d already", f.Name, line)})
			continue
		}
		first[f.Name] = f.Line
		if v.Value != nil {
			f.Value = d.convert(v.Value, f.Name)
		}
		if f.Value == nil {
			f.Value = &Node{doc: d, Key: f.Name}
		}
		if f.Value.kind == kindNull && f.Value.text == "" { // nothing was written: it is nowhere
			f.Value.Line, f.Value.Column = f.Line, f.Column
		}
		n.fields = append(n.fields, f)
	}
}

func (d *Document) convertKey(key ast.MapKeyNode) (Field, bool) {
	t := key.GetToken()
	f := Field{Line: 1, Column: 1, doc: d}
	if t != nil && t.Position != nil {
		f.Line, f.Column = t.Position.Line, t.Position.Column
	}
	switch k := key.(type) {
	case *ast.StringNode:
		f.Name = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		f.Name = t.Value
	default:
		d.add(f.Line, f.Column, Problem{Message: "a key must be plain text"})
		return f, false
	}
	return f, true
}

// Errorf reports an error at the value's place.
func (n *Node) Errorf(format string, args ...any) {
	n.report(Problem{Message: fmt.Sprintf(format, args...)})
}

// Warnf reports a warning at the value's place.
func (n *Node) Warnf(format string, args ...any) {
	n.report(Problem{Message: fmt.Sprintf(format, args...), Warning: true})
}

func (n *Node) report(p Problem) {
	if n != nil {
		n.doc.add(n.Line, n.Column, p)
	}
}
