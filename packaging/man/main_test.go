package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var reference = regexp.MustCompile(`\\fB([a-z-]+)\(([18])\)\\fP`)

// TestPages: every command has a page, every page that one names is there, and the
// same source gives the same bytes.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1750000000")
	dir, again := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, again} {
		if err := write(d); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data := read(t, file)
		if !bytes.Equal(data, read(t, strings.Replace(file, dir, again, 1))) {
			t.Errorf("%s differs when it is made again", file)
		}
		if !strings.HasSuffix(file, ".gz") {
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(z)
		if err != nil || !bytes.Contains(page, []byte("Jun 2025")) {
			t.Errorf("%s is not of its source's date: %v", file, err)
		}
		for _, ref := range reference.FindAllSubmatch(page, -1) {
			name := string(ref[1]) + "." + string(ref[2]) + ".gz"
			if _, err := os.Stat(filepath.Join(dir, "man", "man"+string(ref[2]), name)); err != nil {
				t.Errorf("%s names a page that is not there: %s", filepath.Base(file), name)
			}
		}
	}
	for _, page := range []string{"man8/netclassd.8.gz", "man8/netclassd-flush.8.gz", "man1/netclassctl-verify.1.gz"} {
		if _, err := os.Stat(filepath.Join(dir, "man", page)); err != nil {
			t.Error(err)
		}
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, "man", "*", "*speaker*")); len(hidden) > 0 {
		t.Errorf("hidden commands have pages: %v", hidden)
	}
}

// TestLiteral: a table stays as it is written, and what follows it is text again.
func TestLiteral(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{
		"man1/netclassctl-drain.1.gz":   "\n.EX\nclaim              the others",
		"man1/netclassctl-explain.1.gz": "that nobody uses\nvip ",
	} {
		z, err := gzip.NewReader(bytes.NewReader(read(t, filepath.Join(dir, "man", page))))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q, %v:\n%s", page, want, err, text)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
