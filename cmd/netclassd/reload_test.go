package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/health"
	"netclass.dev/test/fakekernel"
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
	write("nonsense")
	_ = reload()
	_ = os.Remove(path)
	if err := reload(); err == nil || strings.Count(err.Error(), "there is no such file: netclassd idles until there is") != 2 || !d.exit.Load().Idle() {
		t.Errorf("idle daemon, no file: %v", err)
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
		"apiVersion: netclass.dev/v1alpha1\nclasses: [{name: c, link: l}]\n": "it has no tables any more, and would have t emptied",
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
	write("apiVersion: netclass.dev/v1alpha1\nclasses: [{name: c, link: l}]\ntables: []\n")
	if err := reload(); err != nil || len(d.exit.Load().Tables) > 0 {
		t.Errorf("no tables, and meant so: %v", err)
	}
}

// TestUnloaded: a file that has been edited and not loaded is told of, until it is
// loaded, refused, or as it was.
func TestUnloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	d := &daemon{flags: flags{config: path}, ctx: t.Context(), log: newLog(io.Discard, routing.Log{})}
	d.engine = engine.New(engine.Options{Log: slog.New(slog.DiscardHandler)})
	d.health = health.New(d.engine.Look)
	const good, other = "apiVersion: netclass.dev/v1alpha1\ntables: [{name: t, id: 9}]\n", "apiVersion: netclass.dev/v1alpha1\ntables: [{name: t, id: 8}]\n"
	for _, step := range []struct {
		name, text string
		load       bool
		want       string
	}{
		{"idle", "", false, ""},
		{"loaded", good, true, ""},
		{"edited", other, false, "has changed since it was read: netclassctl reload loads it"},
		{"as it was", good, false, ""},
		{"loaded again", other, true, ""},
		{"refused", "nonsense", true, ""},
		{"edited after that", "more nonsense", false, "has changed since it was read"},
		{"gone", "-", false, "is gone since it was loaded: what was in it stays in force"},
	} {
		_ = os.Remove(path)
		if step.text != "-" {
			if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if step.load {
			_, _ = d.Reload(t.Context(), false)
		}
		if got := d.Unloaded(); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
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

// slow is a speaker that takes its time to end.
type slow struct {
	mu  sync.Mutex
	pid int
}

func (s *slow) Set(_ context.Context, want *routing.Speak) error {
	if want == nil {
		time.Sleep(200 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = 0
	if want != nil {
		s.pid = 7
	}
	return nil
}

func (s *slow) Sessions() []routing.Session { return nil }
func (s *slow) Close(bool) error            { return nil }

func (s *slow) Status() routing.SpeakerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return routing.SpeakerStatus{Wanted: s.pid != 0, PID: s.pid, Confirmed: true}
}

// TestReloadAnswersWhenItIsDone: who takes BGP out of the configuration has the port
// for somebody else when the reload has answered.
func TestReloadAnswersWhenItIsDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	load := func(d *daemon, text string) []routing.Problem {
		t.Helper()
		if err := os.WriteFile(path, []byte("apiVersion: netclass.dev/v1alpha1\ntables: [{name: t, id: 9}]\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		warnings, err := d.Reload(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return warnings
	}
	k, sp := fakekernel.New(), &slow{}
	if err := errors.Join(k.AddLink("l"), k.AddAddr("l", netip.MustParsePrefix("192.0.2.2/24"))); err != nil {
		t.Fatal(err)
	}
	d := &daemon{flags: flags{config: path}, ctx: t.Context(), log: newLog(io.Discard, routing.Log{})}
	d.engine = engine.New(engine.Options{
		Kernel: k, Speaker: sp, Inventory: d.inventory, Node: d.nodeName, Log: slog.New(slog.DiscardHandler),
	})
	d.health = health.New(d.engine.Look)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.engine.Run(ctx) }()
	defer func() { stop(); <-done }()
	if _, err := d.engine.Wait(ctx, 0); err != nil { // it runs
		t.Fatal(err)
	}

	load(d, "bgp: {asn: 64512, routerID: 192.0.2.2, upstreams: [{name: r, link: l, peerASN: 64513, address: {ipv4: 192.0.2.1}}]}\n")
	if sp.Status().PID == 0 {
		t.Fatalf("no speaker: %+v", d.State().Conditions)
	}
	if warnings := load(d, ""); sp.Status().PID != 0 || len(warnings) > 0 {
		t.Errorf("answered while the speaker is there, with %v", warnings)
	}

	// What cannot be done is said.
	k.SetFaults(fakekernel.Faults{Dump: func() error { return errors.New("netlink is away") }})
	if warnings := load(d, "guard: {networks: []}\n"); len(warnings) != 1 || !strings.Contains(warnings[0].Message, "netlink is away") {
		t.Errorf("warnings %v", warnings)
	}
}
