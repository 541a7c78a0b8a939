package inventory

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// File is a nodes file, read again whenever it changes.
type File struct {
	path string
	log  *slog.Logger

	current atomic.Pointer[routing.Inventory]

	// Run's own.
	content []byte // of the newest read, good or bad; nil: there was none
}

// NewFile returns the source of the nodes file at path. It has no nodes before
// Run has read it.
func NewFile(path string, log *slog.Logger) *File {
	f := &File{path: path, log: log}
	f.current.Store(&routing.Inventory{Source: f.String(), Stale: "not read yet"})
	return f
}

func (f *File) String() string { return "nodes file " + f.path }

// Inventory returns what is known now. It is never nil and must not be changed.
func (f *File) Inventory() *routing.Inventory { return f.current.Load() }

// read takes the file in and reports whether what is known has changed.
func (f *File) read() (changed bool) {
	data, err := strictyaml.ReadFile(f.path, limits)
	if err != nil {
		f.content = nil
		return f.fail(fmt.Sprintf("read nodes file: %v", err))
	}
	if f.content != nil && bytes.Equal(data, f.content) {
		return false
	}
	nodes, problems := Parse(f.path, data)
	// An empty file is not nil: it too is read once.
	f.content = append(make([]byte, 0, len(data)), data...)
	if errs := problems.Errors(); len(errs) > 0 {
		return f.fail(strings.ReplaceAll(errs.Brief(), "\n", "; "))
	}
	trim(len(nodes))
	was := f.current.Load()
	f.current.Store(&routing.Inventory{Nodes: nodes, Synced: true, Source: f.String()})
	if !was.Synced || was.Stale != "" || len(was.Nodes) != len(nodes) {
		f.log.Info("nodes file read", slog.String("path", f.path), slog.Int("nodes", len(nodes)))
	}
	return true
}

// fail keeps the nodes and says why they are old.
func (f *File) fail(reason string) (changed bool) {
	was := f.current.Load()
	if was.Stale == reason {
		return false
	}
	next := *was
	next.Stale = reason
	f.current.Store(&next)
	f.log.Warn("nodes file not usable", slog.String("path", f.path), slog.String("error", reason), slog.Bool("kept", was.Synced))
	return true
}
