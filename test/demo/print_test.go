package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	s := &story{out: &out}
	s.table([][]string{{"FAULT", "PINGS", "LOST"}, {"restart", "12,012", "0"}, {"kill", "9", number(1234567)}})
	want := "" +
		"  FAULT     PINGS       LOST\n" +
		"  restart  12,012          0\n" +
		"  kill          9  1,234,567\n" +
		"\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestParagraph(t *testing.T) {
	var out strings.Builder
	s := &story{out: &out}
	s.para("%s", strings.Repeat("twelve chars ", 20))
	for line := range strings.Lines(out.String()) {
		if len(line) > columns+1 {
			t.Errorf("%d columns: %q", len(line)-1, line)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %s, want %s", n, got, want)
		}
	}
}

// TestSummary: what is lost without a daemon's fault is told as well.
func TestSummary(t *testing.T) {
	var out strings.Builder
	s := &story{out: &out, unplugged: 1843}
	s.summary([]result{{system: (&netclass{}).name(), faults: 4, sent: 72052}})
	for _, want := range []string{"1,843 pings were lost with netclass", "With netclass every promise was kept."} {
		if !strings.Contains(strings.ReplaceAll(out.String(), "\n", " "), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if len(s.broken) > 0 {
		t.Errorf("broken: %v", s.broken)
	}
}
