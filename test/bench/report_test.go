package bench

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// figure is one line of the table that ends a run.
type figure struct {
	what, value, target, beside string
}

var (
	figuresMu sync.Mutex
	figures   []figure
)

// atMost reports a figure that must not exceed its target. What it is measured
// beside, if anything, is for the reader.
func atMost(b *testing.B, what, unit string, value, target float64, beside string) {
	b.Helper()
	verdict := note(b, what, unit, value, fmt.Sprintf("<= %s", number(target)), value <= target, beside)
	if verdict != "" {
		b.Error(verdict)
	}
}

// atLeast reports a figure that must reach its target.
func atLeast(b *testing.B, what, unit string, value, target float64, beside string) {
	b.Helper()
	verdict := note(b, what, unit, value, fmt.Sprintf(">= %s", number(target)), value >= target, beside)
	if verdict != "" {
		b.Error(verdict)
	}
}

// inform reports a figure without a target.
func inform(b *testing.B, what, unit string, value float64, beside string) {
	b.Helper()
	note(b, what, unit, value, "", true, beside)
}

// note enters a figure in the table and returns what is wrong with it.
func note(b *testing.B, what, unit string, value float64, target string, met bool, beside string) string {
	b.Helper()
	b.ReportMetric(0, "ns/op") // of the whole arrangement: means nothing
	b.ReportMetric(value, strings.ReplaceAll(what, " ", "-")+"-"+unit)
	f := figure{what: what, value: number(value) + " " + unit, target: target, beside: beside}
	verdict := ""
	if target != "" {
		f.target = "ok, " + target
	}
	if !met {
		f.target = "MISSED, " + target
		verdict = fmt.Sprintf("%s: %s, want %s", what, f.value, target)
	}
	figuresMu.Lock()
	figures = append(figures, f)
	figuresMu.Unlock()
	return verdict
}

func number(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// TestMain prints the table after everything else.
func TestMain(m *testing.M) {
	code := m.Run()
	if len(figures) > 0 {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\nFIGURE\tVALUE\tTARGET\tBESIDE")
		for _, f := range figures {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.what, f.value, f.target, f.beside)
		}
		w.Flush()
		fmt.Println()
	}
	os.Exit(code)
}
