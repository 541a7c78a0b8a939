package strictyaml

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

var small = Limits{Bytes: 1 << 20, Tokens: 100_000}

// show gives a tree in one line, each value with its place.
func show(n *Node) string {
	if n == nil {
		return "nil"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d:%d ", n.Line, n.Column)
	switch n.kind {
	case kindList:
		b.WriteString("[")
		for i, item := range n.items {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(show(item))
		}
		b.WriteString("]")
	case kindMap:
		b.WriteString("{")
		for i, f := range n.fields {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s@%d:%d = %s", f.Name, f.Line, f.Column, show(f.Value))
		}
		b.WriteString("}")
	case kindNull:
		b.WriteString("null")
	case kindText:
		b.WriteString("'" + n.text + "'")
	default:
		b.WriteString(n.text)
	}
	return b.String()
}

func TestTree(t *testing.T) {
	for _, test := range []struct{ name, text, want, problems string }{
		{"empty", "", "nil", ""},
		{"comments", "# a\n#b", "nil", ""},
		{"block", "a: 1\nb:\n  - x\n  - c: true\n    d: 1.5\n", "1:1 {a@1:1 = 1:4 1, b@2:1 = 3:3 [3:5 'x', 4:5 {c@4:5 = 4:8 true, d@5:5 = 5:8 1.5}]}", ""},
		{"flow", "{a: [1, {b: c}], ä: x, d: y}", "1:1 {a@1:2 = 1:5 [1:6 1, 1:9 {b@1:10 = 1:13 'c'}], ä@1:18 = 1:21 'x', d@1:24 = 1:27 'y'}", ""},
		{"list at the key's column", "a:\n- b: 1\n  c: 2\n- b: 3\nd: 4\n", "1:1 {a@1:1 = 2:1 [2:3 {b@2:3 = 2:6 1, c@3:3 = 3:6 2}, 4:3 {b@4:3 = 4:6 3}], d@5:1 = 5:4 4}", ""},
		{"null", "a:\nb: ~\nc: null\n", "1:1 {a@1:1 = 1:1 null, b@2:1 = 2:4 null, c@3:1 = 3:4 null}", ""},
		{"words of YAML 1.1", "a: yes\nb: off\nc: 12:30\nd: 0o7\n", "1:1 {a@1:1 = 1:4 'yes', b@2:1 = 2:4 'off', c@3:1 = 3:4 '12:30', d@4:1 = 4:4 0o7}", ""},
		{"quotes and blocks", "a: \"x\\ty\"\nb: 'it''s'\nc: |\n  one\n  two\n", "1:1 {a@1:1 = 1:4 'x\ty', b@2:1 = 2:4 'it's', c@3:1 = 3:4 'one\ntwo\n'}", ""},
		{"CRLF", "a: 1\r\nb:\r\n  c: x\r\n", "1:1 {a@1:1 = 1:4 1, b@2:1 = 3:3 {c@3:3 = 3:6 'x'}}", ""},
		{"CR alone", "a: 1\rb: 2\r", "1:1 {a@1:1 = 1:4 1, b@2:1 = 2:4 2}", ""},
		{"byte order mark", "\ufeffa: 1\n", "1:1 {a@1:1 = 1:4 1}", ""},
		{"tab after a value", "a: 1\t# one\nb: 2\n", "1:1 {a@1:1 = 1:4 1, b@2:1 = 2:4 2}", ""},
		{"tab as indent", "a:\n\tb: 1\n", "nil", "f:2:1: a tab cannot indent; use spaces"},
		{"document end", "a: 1\n...\n", "1:1 {a@1:1 = 1:4 1}", ""},
		{"second document", "a: 1\n---\na: 2\n", "1:1 {a@1:1 = 1:4 1}", "f:2:1: a second YAML document is not allowed"},
		{"document after an end", "a: 1\n...\nb: 2\n", "1:1 {a@1:1 = 1:4 1}", "f:3:2: a second YAML document is not allowed"},
		{"duplicate keys", "a: 1\nb: 2\na: {c: 1, c: 2}\n", "1:1 {a@1:1 = 1:4 1, b@2:1 = 2:4 2}", "f:3:1: duplicate key \"a\"; it is on line 1 already"},
		{"directive", "%YAML 1.2\n---\na: 1\n", "nil", "f:1:1: directives are not supported; leave the line out"},
		{"all that is exotic", "a: &x !!str b\nc: *x\n? d\n: e\n<<: {}\n", "nil", "f:1:4: anchors are not supported; write the value out\n" +
			"f:1:7: tags are not supported; write the value out\nf:2:4: aliases are not supported; write the value out\n" +
			"f:3:1: complex keys are not supported; write the value out\nf:5:1: merge keys are not supported; write the value out"},
		{"not UTF-8", "a: 1\nb: \xff\n", "nil", "f:2:4: file is not valid UTF-8"},
		{"replacement character", "a: \ufffd\n", "1:1 {a@1:1 = 1:4 '\ufffd'}", ""},
		{"control character", "a: 1\x00\n", "nil", "f:1:5: control character U+0000 is not allowed"},
		{"too deep in brackets", strings.Repeat("[", 40), "nil", "f:1:33: nested deeper than 32 levels"},
		{"too deep in dashes", strings.Repeat("- ", 40), "nil", "f:1:65: nested deeper than 32 levels"},
		{"too large", strings.Repeat("#", 1<<20+1), "nil", "f: file is larger than 1048576 bytes"},
		{"empty values", "a:\n- x\nb:\n  c:\n    - y\nd:\ne: {f: , g}\n-\n", "nil", "f:8:1: non-map value is specified; a key needs a colon and a space behind it"},
		{"too many empty values", strings.Repeat("-\n", 1002), "nil", "f:1002:1: more than 1000 values are empty"},
		{"too many empty flow values", "[" + strings.Repeat("{a, b: }, ", 501), "nil", "f:1:5004: more than 1000 values are empty"},
		{"dashes in brackets", "a: [- b]", "nil", "f:1:5: a list of dashes cannot stand inside brackets or braces"},
		{"too many keys", strings.Repeat("a: 1\n", 1002), "nil", "f:1001:2: a mapping may have at most 1000 keys"},
		{"too many words", strings.Repeat("- a\n", 60_000), "nil", "f:50001:1: file is too large: more than 100000 words and signs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Parse("f", []byte(test.text), small)
			if got := show(d.Root); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := d.Problems().Brief(); got != test.problems {
				t.Errorf("got problems  %s\nwant %s", got, test.problems)
			}
		})
	}
}

func TestProblemText(t *testing.T) {
	d := Parse("f.yaml", []byte("a: 1\n#\tä:\tx"+strings.Repeat("y", 300)), small)
	d.add(1, 4, Problem{Message: "wrong"})
	d.add(2, 5, Problem{Message: "hm", Warning: true})
	d.add(2, 200, Problem{Message: "later", Warning: true})
	d.add(0, 0, Problem{Message: "whole"})
	_, long, _ := strings.Cut(d.Problems()[3].String(), "\n")
	long, caret, _ := strings.Cut(long, "\n")
	if len(long) != widest || caret != strings.Repeat(" ", widest/2)+"^" {
		t.Errorf("long line %q, caret %q", long, caret)
	}
	for i, want := range []string{
		"f.yaml: error: whole",
		"f.yaml:1:4: error: wrong\na: 1\n   ^",
		"f.yaml:2:5: warning: hm\n#\tä:\tx" + strings.Repeat("y", widest-6) + "\n \t  ^",
	} {
		if got := d.Problems()[i].String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if p := d.Problems(); len(p.Errors()) != 2 || len(p.Warnings()) != 2 {
		t.Errorf("sorted wrongly: %v", p)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	d := Parse("f", []byte("a: 1\n"), small)
	for range 5000 {
		d.Root.Errorf("x")
		d.Root.Warnf("y")
	}
	problems := d.Problems()
	if len(problems) > 2*mostProblems+1 || problems[len(problems)-1].Message != "4900 more problems are not shown" {
		t.Errorf("%d problems, the last: %s", len(problems), problems[len(problems)-1])
	}
}

// TestHostile gives files made to be expensive. Each must be answered soon, and
// without much memory.
func TestHostile(t *testing.T) {
	limits := Limits{Bytes: 32 << 20, Tokens: 1_000_000}
	for _, unit := range []string{
		"[", "{", "- ", "? ", "&a ", "!a ", "{a: ", "[[]", "a: \n", "a:\n", "a: 1\n", "- a\n", "a: [b]\n", "\"", "'", "'a\n", "\"a\\\n", "|\n ", "- |\n x\n",
		"a: |\n", "#", "# a\n", " ", "\n", "\t", "%", "---\n", "... \n", ",", "*", "&", "!", "<<: ", ": ", "a b\n", "\\", "a", "{a: 1}\n", "[a, ", "a, ", "- a: 1\n", "- - a\n", "-\n", "{a}, ", "{a: }, ", "{a, b}, ", "- a:\n", "-\n -\n", "- # c\n",
	} {
		for _, prefix := range []string{"", "k: [", "k: {"} {
			text := prefix + strings.Repeat(unit, (256<<10)/len(unit))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			d := Parse("f", []byte(text), limits)
			_ = d.Problems()
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 4*time.Second || mb > 1000 {
				t.Errorf("%q repeated in %q: %v, %d MiB allocated", unit, prefix, took, mb)
			} else if took > time.Second/2 {
				t.Logf("%q repeated in %q: %v, %d MiB allocated", unit, prefix, took, mb)
			}
		}
	}
}
