package main

import (
	"os"
	"path/filepath"
	"testing"

	"netclass.dev/routing"
)

// TestTableNames: the names follow the configuration, can be read by all, and are
// written only when they change.
func TestTableNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, tableNames)
	if err := writeTableNames(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something is written though no table has a name")
	}
	main := routing.Table{Name: "main", ID: routing.MainID}
	tables := []routing.Table{{Name: "pods", ID: 47}, main, {Name: "replies", ID: 48}}
	if err := writeTableNames(dir, tables); err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(path)
	if err != nil || first.Mode().Perm() != 0o644 {
		t.Fatalf("%v: %v", first, err)
	}
	if err := writeTableNames(dir, tables); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(first, again) {
		t.Errorf("the same names are written again: %v", err)
	}
	if err := writeTableNames(dir, tables[:1]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := "# Written by netclassd from its configuration.\n47\tpods\n"; err != nil || string(text) != want {
		t.Errorf("got %q, %v; want %q", text, err, want)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the state directory holds %v, %v", files, err)
	}
	// A link in the place of what is written leads nowhere.
	for _, planted := range []string{tableNames, tableNames + ".new"} {
		precious := filepath.Join(t.TempDir(), "precious")
		if err := os.WriteFile(precious, []byte("another's"), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, planted))
		if err := os.Symlink(precious, filepath.Join(dir, planted)); err != nil {
			t.Fatal(err)
		}
		if err := writeTableNames(dir, tables); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(precious)
		if info, _ := os.Stat(precious); err != nil || string(text) != "another's" || info.Mode().Perm() != 0o600 {
			t.Errorf("by a link at %s it says %q, %v, %v", planted, text, info.Mode(), err)
		}
		tables = tables[:2]
	}
	if err := writeTableNames(path, tables); err == nil {
		t.Error("a state directory that is a file is no error")
	}
}
