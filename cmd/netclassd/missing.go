package main

import (
	"bytes"
	"os"
	"path/filepath"

	"netclass.dev/routing"
)

// Why a configuration asks for nothing.
const (
	notThere       = "it is not there"
	isEmpty        = "it is empty"
	asksForNothing = "it asks for nothing"
)

// why says why the configuration at a path, which has no faults, is an idle one.
func why(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return notThere
	}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return asksForNothing
		}
	}
	return isEmpty
}

// nothing is why a configuration that asks for nothing does not take the place of
// one that asks for something: the rules would stay and the sessions end, and most
// likely nobody wants that.
func nothing(path string) error {
	reason := why(path)
	if reason == notThere {
		reason = "it is gone"
	}
	return &routing.Invalid{Problems: []routing.Problem{{
		File:    path,
		Message: reason + ": the last good one stays in force; to take everything out, stop netclassd and run `netclassd flush`",
	}}}
}

// absent is the answer to who has a configuration loaded that is not there. It is no
// fault of the daemon's, which waits for one.
func absent(path string) error {
	return &routing.Invalid{Problems: []routing.Problem{{File: path, Message: "there is no such file: netclassd idles until there is"}}}
}

// absolute returns the path from the root, so that it means the same to whoever
// reads it in a status or a log.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
