package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// named is a page that another names.
var named = regexp.MustCompile(`(?m)^\.BR ([a-z\\-]+) \(([158])\)`)

// TestPages: every command has a page, every page that one names is there, and the
// same source gives the same bytes.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1750000000")
	dir, again := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, again} {
		if err := write(d, "../../"+referenceFile); err != nil {
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
		if err != nil || !bytes.Contains(page, []byte("2025-06-15")) {
			t.Errorf("%s is not of its source's date: %v", file, err)
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "FILES", "SEE ALSO", "EXIT STATUS", "ENVIRONMENT"} {
			ofCommands := section == "EXIT STATUS" || section == "ENVIRONMENT"
			if !bytes.Contains(page, []byte("\n.SH "+section+"\n")) && !(ofCommands && strings.Contains(file, "man5")) {
				t.Errorf("%s has no %s", filepath.Base(file), section)
			}
		}
		for _, unwanted := range []string{"[=false]", "powershell", "PowerShell"} {
			if bytes.Contains(page, []byte(unwanted)) {
				t.Errorf("%s has %q", filepath.Base(file), unwanted)
			}
		}
		for _, ref := range named.FindAllSubmatch(page, -1) {
			name := strings.ReplaceAll(string(ref[1]), `\`, "") + "." + string(ref[2]) + ".gz"
			if _, err := os.Stat(filepath.Join(dir, "man", "man"+string(ref[2]), name)); err != nil {
				t.Errorf("%s names a page that is not there: %s", filepath.Base(file), name)
			}
		}
	}
	for _, page := range []string{"man8/netclassd.8.gz", "man8/netclassd-flush.8.gz", "man1/netclassctl-verify.1.gz", "man5/netclassd-config.5.gz"} {
		if _, err := os.Stat(filepath.Join(dir, "man", page)); err != nil {
			t.Error(err)
		}
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, "man", "*", "*speaker*")); len(hidden) > 0 {
		t.Errorf("hidden commands have pages: %v", hidden)
	}
}

// TestConfigurationHasEveryKey: nothing of the reference is lost on its way into the
// page, and no line that has a comment is too wide.
func TestConfigurationHasEveryKey(t *testing.T) {
	reference := string(read(t, "../../"+referenceFile))
	words := func(s string) string {
		return strings.Join(slices.Sorted(slices.Values(strings.Fields(strings.ReplaceAll(s, "#", "")))), "\n")
	}
	var narrowed []string
	for line := range strings.Lines(reference) {
		line = strings.TrimSuffix(line, "\n")
		for _, part := range narrow(line) {
			narrowed = append(narrowed, part)
			if code, comment, found := strings.Cut(part, " # "); found && len([]rune(part)) > pageWidth && strings.TrimSpace(code) != "" {
				t.Errorf("too wide for %q: %s", comment, part)
			}
		}
	}
	if got, want := words(strings.Join(narrowed, "\n")), words(reference); got != want {
		t.Error("words of the reference are not in the page")
	}
	page := string(configuration(reference, time.Unix(0, 0)))
	for _, key := range []string{"onExit:", "fallback:", "passwordFile:", "gracefulRestart:"} {
		if !strings.Contains(page, key) {
			t.Errorf("the page lacks %s", key)
		}
	}
}

// TestQuoted: roff takes no text for its own requests.
func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{".so /x": `\&.so /x`, `a\b`: `a\eb`, "'q": `\(aqq`, "a-b": `a\-b`, "`c`": `\(gac\(ga`} {
		if got := quoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestLiteral: a table stays as it is written, and what follows it is text again.
func TestLiteral(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "../../"+referenceFile); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{
		"man1/netclassctl-drain.1.gz":   "\n.EX\n  claim              the others",
		"man1/netclassctl-explain.1.gz": "that nobody uses\n  vip ",
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
