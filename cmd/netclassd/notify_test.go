package main

import (
	"bytes"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"netclass.dev/routing"
)

// told is a notifier whose datagrams a test collects, and the state it tells of.
type told struct {
	notifier
	state  routing.State
	said   []string
	deaf   bool // systemd takes nothing
	logged bytes.Buffer
}

func newTold(watchdog time.Duration) *told {
	n := &told{state: routing.State{Plan: &routing.Plan{}}}
	n.notifier.state = func() *routing.State { return &n.state }
	n.log = slog.New(slog.NewTextHandler(&n.logged, nil))
	n.send = func(text string) error {
		if n.deaf {
			return syscall.EAGAIN
		}
		n.said = append(n.said, strings.Split(text, "\n")...)
		return nil
	}
	n.watchdog, n.due, n.since = watchdog, startDue, time.Now()
	return n
}

// pass is one of the engine's, a moment later.
func (n *told) pass() time.Duration {
	time.Sleep(time.Millisecond)
	n.state.Pass.At = time.Now()
	return n.passed()
}

// heard reports whether something was said since the last call.
func (n *told) heard(what string) bool {
	defer func() { n.said = nil }()
	return slices.ContainsFunc(n.said, func(s string) bool { return strings.HasPrefix(s, what) })
}

// configure gives the state a configuration that is not converged.
func (n *told) configure() {
	n.state.Config.Config = &routing.Config{Tables: []routing.Table{{Name: "t", ID: 9}}}
	n.state.Plan = &routing.Plan{Classes: []routing.ClassStatus{{Class: routing.Class{Name: "c"}, Health: routing.Ready}}}
}

func TestIdleIsReadyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTold(0)
		n.passed()
		if n.heard("READY=1") {
			t.Error("READY before the first pass")
		}
		n.pass()
		if !n.heard("READY=1") {
			t.Error("an idle daemon is not ready")
		}
		if n.status != "STATUS=idle until there is a configuration" {
			t.Error(n.status)
		}
	})
}

// TestReadyWhenConverged: each of what a start waits for keeps it from being ready,
// for so long and no longer.
func TestReadyWhenConverged(t *testing.T) {
	for name, test := range map[string]struct {
		lack func(*routing.State)
		want string
	}{
		"a class waits": {func(s *routing.State) {
			s.Plan.Classes[0].Health, s.Plan.Classes[0].Reason = routing.Waiting, "link x is down"
		}, "class c: link x is down"},
		"a class is violated":     {func(s *routing.State) { s.Plan.Classes[0].Health = routing.Degraded }, "class c"},
		"a table waits":           {func(s *routing.State) { s.Plan.Tables = []routing.TableStatus{{Name: "t", Health: routing.Waiting}} }, "table t"},
		"the nodes are not known": {func(s *routing.State) { s.Plan.Hold = "nodes not read" }, "nodes not read"},
		"the kernel lacks a rule": {func(s *routing.State) { s.Pending = make([]routing.Op, 1) }, "the kernel lacks 1 change"},
		"a peer has yet to speak": {func(s *routing.State) { s.Pass.Synced = false }, "what peers have to say"},
		"the kernel is not read":  {func(s *routing.State) { s.Pass.Error = "dump\nrules" }, "dump rules"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, comes := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					n := newTold(0)
					n.configure()
					good := n.state
					goodPlan := *n.state.Plan
					n.state.Plan = &goodPlan
					n.state.Plan.Classes = slices.Clone(n.state.Plan.Classes)
					n.state.Pass.Synced = true
					test.lack(&n.state)
					begin := time.Now()
					within := n.pass()
					if n.heard("READY=1") || n.status != "STATUS=waiting for "+test.want {
						t.Errorf("ready, or %s", n.status)
					}
					if comes {
						n.state = good
						n.state.Pass.Synced = true
						if n.pass(); !n.heard("READY=1") {
							t.Errorf("not ready: %s", n.status)
						}
						return
					}
					time.Sleep(within)
					if n.pass(); !n.heard("READY=1") || time.Since(begin) < readyWithin || time.Since(begin) > readyWithin+time.Second {
						t.Errorf("after %v not ready", time.Since(begin))
					}
				})
			}
		})
	}
}

// TestReadyWithoutEverything: what is no start's to wait for holds none up.
func TestReadyWithoutEverything(t *testing.T) {
	for _, health := range []routing.Health{routing.Ready, routing.Shared, routing.Drained, routing.Delegated} {
		synctest.Test(t, func(t *testing.T) {
			n := newTold(0)
			n.configure()
			n.state.Pass.Synced = true
			n.state.Plan.Classes[0].Health = health
			if n.pass(); !n.heard("READY=1") {
				t.Errorf("with a class that is %s it is not ready: %s", health, n.status)
			}
		})
	}
}

// TestWatchdogIsFedByPasses: often enough, and by nothing else.
func TestWatchdogIsFedByPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTold(30 * time.Second)
		for range 20 {
			within := n.pass()
			if !n.heard("WATCHDOG=1") {
				t.Error("a pass after a while does not feed")
			}
			if within <= 0 || within > 10*time.Second {
				t.Errorf("the next pass may be %v away", within)
			}
			time.Sleep(within)
		}
		n.pass()
		n.said = nil
		for range 100 {
			n.pass()
		}
		if n.heard("WATCHDOG=1") {
			t.Error("a burst of passes is a burst of datagrams")
		}
		time.Sleep(time.Hour)
		if n.heard("") {
			t.Error("something was said without a pass")
		}
	})
}

// TestReloadIsTold: RELOADING with its time, then READY after the first pass that
// has begun since.
func TestReloadIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTold(0)
		n.configure()
		n.state.Pass.Synced = true
		n.reloading()
		n.reloaded()
		if n.heard("RELOADING=1") {
			t.Error("RELOADING before READY")
		}
		n.pass()
		if !n.heard("READY=1") {
			t.Fatal("not ready")
		}

		n.reloading()
		if !slices.Contains(n.said, "RELOADING=1") || !n.heard("MONOTONIC_USEC=") {
			t.Error("RELOADING not told")
		}
		n.pass()
		if n.heard("READY=1") {
			t.Error("READY while the file is being read")
		}
		n.state.Pass.At = time.Now()
		time.Sleep(time.Millisecond)
		n.reloaded()
		n.passed()
		if n.heard("READY=1") {
			t.Error("READY for a pass that began before")
		}
		n.state.Pending = make([]routing.Op, 2)
		n.pass()
		if n.heard("READY=1") {
			t.Error("READY though the kernel lacks something")
		}
		n.state.Pending = nil
		n.state.Plan.Classes[0].Health = routing.Waiting // for what no reload brings
		n.pass()
		if !n.heard("READY=1") {
			t.Error("no READY after the reload")
		}
		n.stopping("ending")
		if !n.heard("STOPPING=1") {
			t.Error("STOPPING not told")
		}
	})
}

// TestDeafSystemd: what it has not taken is said again, and no pass waits for it.
func TestDeafSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTold(60 * time.Second)
		n.deaf = true
		for range 20 {
			within := n.pass()
			if within != tellAgain {
				t.Errorf("the next pass may be %v away", within)
			}
			time.Sleep(within)
		}
		if got := strings.Count(n.logged.String(), "\n"); got != 1 {
			t.Errorf("it is logged %d times:\n%s", got, n.logged.String())
		}
		n.deaf = false
		if n.pass(); !slices.Contains(n.said, "READY=1") || !slices.Contains(n.said, "WATCHDOG=1") || !n.heard("STATUS=idle") {
			t.Errorf("said again: %q", n.said)
		}
	})

	// A socket whose queue is full, as of a systemd that hangs and comes to again.
	path := t.TempDir() + "/notify"
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := 0
	for sendTo(path, "STATUS=x") == nil {
		if taken++; taken > 1<<16 {
			t.Fatal("its queue never fills")
		}
	}
	buffer := make([]byte, 100)
	for range taken {
		if n, err := listener.Read(buffer); err != nil || string(buffer[:n]) != "STATUS=x" {
			t.Fatalf("systemd reads %q, %v", buffer[:n], err)
		}
	}
	if err := sendTo(path, "STATUS=y"); err != nil {
		t.Errorf("not taken, though there is room again: %v", err)
	}
	if err := sendTo(path+"x", "STATUS=z"); err == nil {
		t.Error("taken by nobody")
	}
}

// TestStatusIsOneLine: what the outside has named cannot say anything of its own to
// systemd.
func TestStatusIsOneLine(t *testing.T) {
	n := newTold(0)
	n.state.Config.Error = "line\nMAINPID=1\n" + strings.Repeat("é", 500)
	n.pass()
	if strings.Count(strings.Join(n.said, "\n"), "\nMAINPID") > 0 || len(n.status) > 230 {
		t.Errorf("%q", n.said)
	}
}
