package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestUsage: what is meant is said, and check has a file without being told.
func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"chekc":                          `unknown command "chekc" (did you mean "check"?); see netclassd --help`,
		"nothing":                        `unknown command "nothing"; see netclassd --help`,
		"check a b":                      "check takes one file, not 2",
		"check --config /no/such/c.yaml": "check configuration: stat /no/such/c.yaml: no such file or directory",
	} {
		root := command()
		root.SetArgs(strings.Fields(args))
		if err := root.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// TestHelpFits: no line of a help is wider than a terminal.
func TestHelpFits(t *testing.T) {
	for _, cmd := range append(command().Commands(), command()) {
		var out bytes.Buffer
		root := command()
		root.SetOut(&out)
		args := []string{"--help"}
		if cmd.HasParent() {
			args = []string{cmd.Name(), "--help"}
		}
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s: %s", cmd.Name(), line)
			}
		}
	}
}
