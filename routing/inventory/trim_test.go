package inventory

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrim has memory given back after many nodes were read, also when they are
// read anew and say nothing new, and after few not at all.
func TestTrim(t *testing.T) {
	freed := 0
	defer func(was func()) { freeMemory = was }(freeMemory)
	freeMemory = func() { freed++ }
	want := func(what string, n int) {
		t.Helper()
		time.Sleep(trimAfter + time.Second)
		synctest.Wait()
		if freed != n {
			t.Errorf("%s: freed %d times, want %d", what, freed, n)
		}
		freed = 0
	}
	facts := func(n int) map[string]fact {
		all := make(map[string]fact)
		for i := range n {
			name := fmt.Sprint("node-", i)
			all[name] = &nodeFact{Name: name}
		}
		return all
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCollection(make([]resource, 1))
		c.take(event{whole: facts(many + 1)}, time.Now())
		want("many of the API", 1)
		c.take(event{whole: facts(many + 1)}, time.Now())
		want("the same anew", 1)
		c.take(event{whole: facts(many)}, time.Now())
		want("few of the API", 0)
		c.take(event{name: "another", fact: &nodeFact{Name: "another"}}, time.Now())
		want("one", 0)

		file := filepath.Join(t.TempDir(), "nodes.yaml")
		write := func(n int) {
			var b strings.Builder
			b.WriteString("nodes:\n")
			for i := range n {
				fmt.Fprintf(&b, "  - {name: node-%d}\n", i)
			}
			if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := NewFile(file, slog.New(slog.DiscardHandler))
		write(many + 1)
		f.read()
		want("many of a file", 1)
		f.read()
		want("an unchanged file", 0)
		write(many)
		f.read()
		want("few of a file", 0)
	})
}
