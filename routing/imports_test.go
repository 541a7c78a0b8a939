package routing_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "netclass.dev/"

// arrows says which rooms of the project each room may import. What is not
// listed imports none. A trailing "/..." takes in everything below.
var arrows = map[string][]string{
	"routing":                     {},
	"routing/internal/strictyaml": {},
	"routing/alarm":               {},
	"routing/internal/statefile":  {},
	"routing/internal/watchfile":  {"routing/alarm"},
	"routing/health":              {"routing/alarm"},
	"routing/intent":              {"routing", "routing/internal/strictyaml", "routing/internal/watchfile"},
	"routing/inventory":           {"routing", "routing/internal/statefile", "routing/internal/strictyaml", "routing/internal/watchfile"},
	"routing/plan":                {"routing"},
	"routing/fib":                 {"routing"},
	"routing/promise":             {"routing", "routing/fib"},
	"routing/kernel":              {"routing"},
	"routing/bgp":                 {"routing", "proto/netclass/speaker/v1"},
	"routing/speaker":             {"routing", "proto/netclass/speaker/v1"},
	"routing/drain":               {"routing", "routing/internal/statefile"},
	"routing/engine":              {"routing", "routing/internal/statefile", "routing/plan", "routing/fib", "routing/promise"},
	"proto/netclass/v1":           {},
	"proto/netclass/speaker/v1":   {"routing"},
	"server":                      {"routing", "proto/netclass/v1"},
	"server/servertest":           {"routing", "server"}, // for tests only
	"client":                      {"proto/netclass/v1"},
	"client/cli":                  {"client", "proto/netclass/v1", "version"},
	"version":                     {},
	"cmd/netclassctl":             {"client", "client/cli", "proto/netclass/v1", "version"},
	"cmd/netclassd":               {"cmd/netclassd/commands", "routing", "routing/...", "server", "version"},
	"cmd/netclassd/commands":      {"version"},
	"packaging/man":               {"client/cli", "cmd/netclassd/commands", "version"},
	"packaging/image":             {}, // a module of its own
}

// only says which rooms may import a library that has one job.
var only = map[string][]string{
	"github.com/osrg/gobgp":           {"routing/bgp"},
	"github.com/vishvananda/netlink":  {"routing/kernel"},
	"github.com/jsimonetti/rtnetlink": {"routing/kernel"},
	"github.com/mdlayher/netlink":     {"routing/kernel"},
	"github.com/goccy/go-yaml":        {"routing/internal/strictyaml"},
	"github.com/fsnotify/fsnotify":    {"routing/internal/watchfile"},
	"google.golang.org/grpc":          {"server", "client", "client/cli", "proto/netclass/v1", "cmd/netclassctl"},
	"github.com/spf13/cobra":          {"cmd/netclassd/commands", "cmd/netclassd", "cmd/netclassctl", "client/cli", "packaging/man"},
	"github.com/cilium/ebpf":          {},
	"k8s.io":                          {"routing/inventory"},
	"k8s.io/apimachinery/pkg/labels":  {"routing/inventory", "routing/intent"},
}

// TestImportArrows keeps the rooms apart: imports point one way, and each
// library has one importer.
func TestImportArrows(t *testing.T) {
	seen := map[string]bool{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == "test" || name == "examples" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir // the tests' lab may import whatever it needs
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		room := path.Dir(name)
		seen[room] = true
		allowed, known := arrows[room]
		if !known {
			t.Errorf("%s: the room %s has no arrows: say here what it may import", name, room)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, name, room, imported, allowed)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for room := range arrows {
		if !seen[room] {
			t.Errorf("arrows names the room %s, which is not there", room)
		}
	}
}

func checkImport(t *testing.T, file, room, imported string, allowed []string) {
	t.Helper()
	if own, ok := strings.CutPrefix(imported, module); ok {
		if !slices.ContainsFunc(allowed, func(a string) bool {
			below, tree := strings.CutSuffix(a, "/...")
			return own == a || tree && strings.HasPrefix(own, below+"/") && !strings.Contains(own, "/internal/")
		}) {
			t.Errorf("%s: %s must not import %s", file, room, own)
		}
		return
	}
	thirdParty := strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
	if room == "routing" && thirdParty {
		t.Errorf("%s: the vocabulary imports the standard library only, not %s", file, imported)
	}
	owned := "" // the closest of those that have one job
	for library := range only {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && len(library) > len(owned) {
			owned = library
		}
	}
	if rooms := only[owned]; owned != "" && !slices.Contains(rooms, room) {
		t.Errorf("%s: %s must not import %s; that is the job of %v", file, room, imported, rooms)
	}
}
