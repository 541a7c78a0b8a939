package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	pb "netclass.dev/proto/netclass/v1"
)

// TestNothingIsBrokenWithinAWord: at every width that has room for the longest word,
// no line is wider than the terminal and every word is whole.
func TestNothingIsBrokenWithinAWord(t *testing.T) {
	cols := columns("NAME NUMBER> TEXT| LIST| STATE REASON|")
	rows := [][]cell{
		row("k8s-1", 7, "iif ingress0 to 10.47.64.0/24 unreachable", "10.244.1.0/24,fd00:10:244:1::/64", "Installed", ""),
		row("k8s-2", 12345, "from 10.244.0.0/16 lookup 47", "10.244.2.0/24", "Foreign", "node k8s-1 has no annotation example.org/egress-gw-v6"),
	}
	words := func(text string) []string {
		list := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
		slices.Sort(list)
		return list
	}
	want := ""
	for width := 200; width >= 34; width-- {
		var out bytes.Buffer
		(&app{env: Env{Out: &out, Width: width, Getenv: func(string) string { return "1" }}}).print(cols, rows)
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
		// A dash for what is empty may go with its line.
		got := strings.Trim(fmt.Sprint(slices.DeleteFunc(words(out.String()), func(w string) bool { return w == dash })), "[]")
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("width %d: words %s, want %s\n%s", width, got, want, out.String())
		}
	}
}

func TestWrapped(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"from all lookup main", 10, []string{"from all", "lookup", "main"}},
		{"a longestword", 8, []string{"a", "longestw", "ord"}},
		{"10.0.0.0/8,fd00::/64", 12, []string{"10.0.0.0/8,", "fd00::/64"}},
		{"one, two", 4, []string{"one,", "two"}},
		{"é é", 1, []string{"é", "é"}},
		{"", 5, []string{""}},
	} {
		if got := wrapped(test.text, test.width); !slices.Equal(got, test.want) {
			t.Errorf("%q at %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

func TestLongestWord(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a bcd ef": 3, "10.0.0.0/8,fd00::/64": 11, "x, yy": 2} {
		if got := longestWord(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestRuleText: what says nothing is left out, but for the wide view.
func TestRuleText(t *testing.T) {
	for text, want := range map[string]string{
		"0: from all lookup local":                              "from all lookup local",
		"5: from all iif ingress0 to 10.47.64.0/24 unreachable": "iif ingress0 to 10.47.64.0/24 unreachable",
		"9: from all fwmark 0x200/0xf00 lookup 2004":            "fwmark 0x200/0xf00 lookup 2004",
		"9: not from all fwmark 0x1 lookup 7":                   "not from all fwmark 0x1 lookup 7",
		"9: from 10.244.0.0/16 to 10.48.0.0/24 lookup 47":       "from 10.244.0.0/16 to 10.48.0.0/24 lookup 47",
	} {
		rule := &pb.Rule{Text: text}
		if got := (&app{}).ruleText(rule); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		_, whole, _ := strings.Cut(text, ": ")
		if got := (&app{format: formatWide}).ruleText(rule); got != whole {
			t.Errorf("wide, %q: %q", text, got)
		}
	}
}
