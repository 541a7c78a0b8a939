package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestTimesHaveAUnit: in every format a length of time says what it is counted in.
func TestTimesHaveAUnit(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		newLog(&out, routing.Log{Level: "info", Format: format}).Info("asked", "took", 846630*time.Nanosecond)
		if !strings.Contains(out.String(), "846.63µs") || strings.Contains(out.String(), "846630") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
