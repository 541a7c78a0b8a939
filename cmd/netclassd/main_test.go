package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

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
