package inventory_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
)

// running is a File under Run, with its notifications.
type running struct {
	*inventory.File
	t        *testing.T
	notified chan struct{}
}

func run(t *testing.T, path string) running {
	t.Helper()
	r := running{inventory.NewFile(path, slog.New(slog.DiscardHandler)), t, make(chan struct{}, 100)}
	if i := r.Inventory(); i.Synced || i.Stale == "" || len(i.Nodes) > 0 {
		t.Errorf("before the first read: %+v", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		r.Run(ctx, func() { r.notified <- struct{}{} })
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// until waits for a notification after which the inventory is as wanted.
func (r running) until(what string, ok func(*routing.Inventory) bool) {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case <-r.notified:
			if ok(r.Inventory()) {
				return
			}
		case <-deadline:
			r.t.Fatalf("%s: still %+v", what, r.Inventory())
		}
	}
}

func fresh(names string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool { return i.Synced && i.Stale == "" && namesOf(i) == names }
}

func stale(names, reason string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool {
		return i.Synced == (names != "") && strings.Contains(i.Stale, reason) && namesOf(i) == names
	}
}

func namesOf(i *routing.Inventory) string {
	var names []string
	for _, n := range i.Nodes {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const oneNode, twoNodes = "nodes: [{name: a}]\n", "nodes: [{name: b}, {name: a}]\n"

func TestFileChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "nodes.yaml")
	write(t, path, oneNode)
	r := run(t, path)
	r.until("first read", fresh("a"))

	write(t, path, twoNodes)
	r.until("written in place", fresh("a b"))

	write(t, path+".new", oneNode)
	must(t, os.Rename(path+".new", path))
	r.until("renamed onto it", fresh("a"))

	write(t, path, "nodes:\n  - nam: a\n  - {}\n")
	r.until("broken", stale("a", path+`:2:5: unknown key "nam"`))
	if faults := strings.Split(r.Inventory().Stale, "; "+path); len(faults) != 3 || strings.Contains(r.Inventory().Stale, "\n") {
		t.Errorf("want three faults, got %q", r.Inventory().Stale)
	}
	write(t, path, twoNodes)
	r.until("repaired", fresh("a b"))

	write(t, path, "")
	r.until("empty", stale("a b", "nodes file is empty"))
	must(t, os.Remove(path))
	r.until("removed", stale("a b", "no such file"))
	write(t, path, oneNode)
	r.until("there again", fresh("a"))

	// The same content again, and other files of the folder, are no news.
	write(t, path, oneNode)
	write(t, filepath.Join(folder, "other"), "x")
	select {
	case <-r.notified:
		t.Error("notified of nothing new")
	case <-time.After(300 * time.Millisecond):
	}
}

// TestFileInConfigMap swaps the link ..data as the kubelet does.
func TestFileInConfigMap(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for version, text := range map[string]string{"..1": oneNode, "..2": twoNodes} {
		must(t, os.Mkdir(filepath.Join(folder, version), 0o700))
		write(t, filepath.Join(folder, version, "nodes.yaml"), text)
	}
	must(t, os.Symlink("..1", filepath.Join(folder, "..data")))
	path := filepath.Join(folder, "nodes.yaml")
	must(t, os.Symlink("..data/nodes.yaml", path))
	r := run(t, path)
	r.until("first read", fresh("a"))
	must(t, os.Symlink("..2", filepath.Join(folder, "..data_tmp")))
	must(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
	r.until("swapped", fresh("a b"))
}

func TestFileFolderComesLate(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "late")
	path := filepath.Join(folder, "nodes.yaml")
	r := run(t, path)
	r.until("no folder", stale("", "no such file"))
	must(t, os.Mkdir(folder, 0o700))
	write(t, path, oneNode)
	r.until("folder there", fresh("a"))
	must(t, os.RemoveAll(folder))
	r.until("folder removed", stale("a", "no such file"))
	must(t, os.Mkdir(folder, 0o700))
	write(t, path, twoNodes)
	r.until("folder there again", fresh("a b"))
}
