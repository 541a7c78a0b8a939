package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	pb "netclass.dev/proto/netclass/v1"
)

// word is a CamelCase literal: of what these rooms say, only the reasons of
// conditions are written so.
var word = regexp.MustCompile(`"([A-Z][a-z]+[A-Za-z]*)"`)

// TestEveryReasonIsExplained: docs/status.md has every health and every reason that a
// condition can have, and none that there is not.
func TestEveryReasonIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, name := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(first, -1) {
			if strings.HasPrefix(line, "| `") {
				explained[name[1]] = true
			}
		}
	}
	said := map[string]bool{}
	for number := range pb.Health_name {
		if name := health(pb.Health(number)).text; name != "" {
			said[name] = true
		}
	}
	for _, room := range []string{"plan", "engine"} {
		files, err := filepath.Glob("../../routing/" + room + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range word.FindAllStringSubmatch(string(source), -1) {
				said[found[1]] = true
			}
		}
	}
	for name := range said {
		if !explained[name] {
			t.Errorf("docs/status.md does not explain %s", name)
		}
	}
	for name := range explained {
		if !said[name] {
			t.Errorf("docs/status.md explains %s, which nothing says", name)
		}
	}
}
