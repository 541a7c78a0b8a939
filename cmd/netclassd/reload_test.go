package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// TestReloadOfNothing: a file that is gone or empty takes nothing out of force.
func TestReloadOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	d := &daemon{flags: flags{config: path}, ctx: t.Context(), log: newLog(io.Discard, routing.Log{})}
	d.engine = engine.New(engine.Options{Log: slog.New(slog.DiscardHandler)})
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload := func() error {
		return errors.Join(d.Reload(context.Background(), true), d.Reload(context.Background(), false))
	}
	for _, idle := range []string{"", "# nothing yet\n", "apiVersion: netclass.dev/v1alpha1\n"} {
		write(idle)
		if err := reload(); err != nil || !d.exit.Load().Idle() {
			t.Errorf("idle daemon, file %q: %v", idle, err)
		}
	}
	write("apiVersion: netclass.dev/v1alpha1\ntables: [{name: t, id: 9}]\n")
	if err := reload(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                    "it is empty: the last good one stays",
		"---\n# out\n":                        "it is empty: the last good one stays",
		"apiVersion: netclass.dev/v1alpha1\n": "it asks for nothing: the last good one stays",
		"gone":                                "it is gone: the last good one stays",
	} {
		if text == "gone" {
			_ = os.Remove(path)
		} else {
			write(text)
		}
		var refused *routing.Invalid
		if err := reload(); !errors.As(err, &refused) || strings.Count(err.Error(), want) != 2 {
			t.Errorf("file %q: %v", text, err)
		}
		if d.exit.Load().Idle() {
			t.Errorf("file %q is in force", text)
		}
	}
}

// TestFirstFault: a status has one line for what may be many faults.
func TestFirstFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: netclass.dev/v1alpha1\nkind: x\nnode: [a]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := load(path)
	if err == nil {
		t.Fatal("no faults")
	}
	want := path + `:2:1: unknown key "kind"; and 1 more (netclassctl reload --validate-only shows all)`
	if got := first(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
