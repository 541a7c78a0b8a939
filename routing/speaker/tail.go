package speaker

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

const (
	tailLines = 20
	tailWidth = 500
)

// tail is the standard error of a process: passed on to the log line by line,
// the last lines kept for when it dies.
type tail struct {
	sink *slog.Logger

	mu    sync.Mutex
	rest  []byte // of an unfinished line
	skip  bool   // to the end of a line that is too long
	lines []string
}

// Write is called by one goroutine.
func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(b) > 0 {
		line, after, whole := bytes.Cut(b, []byte("\n"))
		b = after
		if room := tailWidth - len(t.rest); !t.skip && room > 0 {
			t.rest = append(t.rest, line[:min(len(line), room)]...)
		}
		t.skip = len(t.rest) >= tailWidth
		if whole {
			t.line(string(t.rest))
			t.rest, t.skip = t.rest[:0], false
		}
	}
	return n, nil
}

// line logs one line and keeps it if it is not routine.
func (t *tail) line(l string) {
	if msg, ok := strings.CutPrefix(l, "DEBUG "); ok {
		t.sink.Debug("speaker: " + msg)
		return
	}
	if msg, ok := strings.CutPrefix(l, "WARN "); ok {
		t.sink.Warn("speaker: " + msg)
		l = msg
	} else {
		t.sink.Debug("speaker: " + l) // a stack trace, most likely
	}
	if len(t.lines) == tailLines && !strings.HasPrefix(l, "panic:") {
		return // the beginning of a trace tells more than its end
	}
	t.lines = append(t.lines, l)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

// culprit returns the address of the neighbour whose message made the process
// panic, as package bgp labels its goroutines; empty when the trace names none.
// The goroutine that panicked is the first of a trace.
func (t *tail) culprit() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		if strings.HasPrefix(l, "goroutine ") {
			if m := peerLabel.FindStringSubmatch(l); m != nil {
				return m[1]
			}
			return ""
		}
	}
	return ""
}

var peerLabel = regexp.MustCompile(`^goroutine \d+ [^\[]*\[running[^\]]*labels:\{"peer": "([0-9a-f.:]+)"\}`)

// reason returns the line that best says why the process died.
func (t *tail) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		if strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") {
			return l
		}
	}
	if n := len(t.lines); n > 0 {
		return t.lines[n-1]
	}
	return ""
}
