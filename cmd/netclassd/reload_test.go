package main

import (
	"bytes"
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
	"netclass.dev/routing/health"
)

// TestReloadOfNothing: a file that is gone or empty takes nothing out of force.
func TestReloadOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	d := &daemon{flags: flags{config: path}, ctx: t.Context(), log: newLog(io.Discard, routing.Log{})}
	d.engine = engine.New(engine.Options{Log: slog.New(slog.DiscardHandler)})
	d.health = health.New(d.engine.Look)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload := func() error {
		_, checked := d.Reload(context.Background(), true)
		_, loaded := d.Reload(context.Background(), false)
		return errors.Join(checked, loaded)
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

// TestReloadWarns: who reloads is told what `netclassd check` would have said, and
// so is the log.
func TestReloadWarns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := `apiVersion: netclass.dev/v1alpha1
networks: {pods: [10.244.0.0/16]}
classes: [{name: pod-pod, link: pod0, traffic: [{from: pods, to: pods}]}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d := &daemon{flags: flags{config: path}, ctx: t.Context(), log: newLog(&log, routing.Log{Format: "text"})}
	d.engine = engine.New(engine.Options{Log: slog.New(slog.DiscardHandler)})
	d.health = health.New(d.engine.Look)
	for _, validateOnly := range []bool{true, false} {
		if log.Len() > 0 {
			t.Errorf("a file that is only checked is logged: %s", &log)
		}
		warnings, err := d.Reload(t.Context(), validateOnly)
		if err != nil || len(warnings) == 0 || !strings.HasPrefix(warnings[0].String(), path+":3:") {
			t.Errorf("validate only %v: %v, %v", validateOnly, warnings, err)
		}
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), path+":3:") {
		t.Errorf("log: %s", &log)
	}
}

// TestReloadNamesPasswords: so is who names a password file that cannot be read.
func TestReloadNamesPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := `apiVersion: netclass.dev/v1alpha1
tables: [{name: t, id: 9}]
bgp:
  asn: 64512
  upstreams:
  - {name: a, link: l, peerASN: 64513, address: {ipv4: 192.0.2.1}, passwordFile: gone}
  - {name: b, link: l, peerASN: 64513, address: {ipv4: 192.0.2.2}, passwordFile: gone}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{flags: flags{config: path}, ctx: t.Context(), log: newLog(io.Discard, routing.Log{})}
	d.engine = engine.New(engine.Options{Log: slog.New(slog.DiscardHandler)})
	d.health = health.New(d.engine.Look)
	for _, validateOnly := range []bool{true, false} {
		warnings, err := d.Reload(t.Context(), validateOnly)
		want := filepath.Join(filepath.Dir(path), "gone")
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), want) {
			t.Errorf("validate only %v: %v, %v; want %s named once", validateOnly, warnings, err, want)
		}
	}
}

// TestFirstFault: a status has one line for what may be many faults.
func TestFirstFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: netclass.dev/v1alpha1\nkind: x\nnode: [a]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := load(path)
	if err == nil {
		t.Fatal("no faults")
	}
	want := path + `:2:1: unknown key "kind"; and 1 more (netclassctl reload --validate-only shows all)`
	if got := first(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
