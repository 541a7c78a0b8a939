package cli_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
)

// stuck makes a source begin a drain, or an undrain, that does not end.
func stuck(source *servertest.Source) {
	source.OnDrain = func(ctx context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		st := routing.DrainStatus{Request: req, Progress: routing.DrainProgress{Phase: routing.DrainGoing, Step: routing.DrainPaths, Message: "waiting for quiet"}}
		_ = report(st)
		<-ctx.Done()
		return ctx.Err()
	}
	source.OnUndrain = func(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
		return source.OnDrain(ctx, req, false, report)
	}
}

// Whoever stops following a drain is told that it goes on, and how it is taken back.
func TestDrainIsLeft(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	stuck(source)
	socket := servertest.Start(t, source)
	for _, c := range []struct {
		args string
		stop syscall.Signal
		code int
		want string
	}{
		{"drain k8s-3", syscall.SIGINT, 1, "netclassctl: interrupted; the drain of k8s-3 goes on: netclassctl nodes shows how far it is, netclassctl undrain k8s-3 takes it back\n"},
		{"drain", syscall.SIGTERM, 1, "netclassctl: interrupted; the drain of k8s-1 goes on: netclassctl nodes shows how far it is, netclassctl undrain k8s-1 takes it back\n"},
		{"undrain", syscall.SIGINT, 1, "netclassctl: interrupted; the undrain of k8s-1 goes on: netclassctl nodes shows how far it is\n"},
		{"drain --timeout 2s", 0, 5, "netclassctl: not done after 2s; the drain of k8s-1 goes on: netclassctl nodes shows how far it is, netclassctl undrain k8s-1 takes it back\n"},
		{"undrain --timeout 2s", 0, 5, "netclassctl: not done after 2s; the undrain of k8s-1 goes on: netclassctl nodes shows how far it is\n"},
	} {
		child, out, stderr := start(t, append([]string{"--socket", socket}, strings.Fields(c.args)...)...)
		until(t, out, "waiting for quiet")
		if c.stop != 0 {
			_ = child.Process.Signal(c.stop)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = child.Wait()
		if code := child.ProcessState.ExitCode(); code != c.code || stderr.String() != c.want {
			t.Errorf("%s: exit %d, %q; want %d, %q", c.args, code, stderr.String(), c.code, c.want)
		}
	}
}

// The default timeout cuts no drain short, and a daemon that ends or is killed leaves
// the word that the drain goes on.
func TestDrainOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	stuck(source)
	for name, want := range map[string]string{
		"stopped": "netclassctl: netclassd is stopping; the drain of k8s-3 goes on once it runs again\n",
		"killed":  "netclassctl: lost the connection to netclassd; the drain of k8s-3 goes on: netclassctl nodes shows how far it is, netclassctl undrain k8s-3 takes it back\n",
	} {
		socket := filepath.Join(t.TempDir(), "n.sock")
		l, err := server.Listen(socket, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		served := make(chan error, 1)
		go func() { served <- server.New(server.Config{Source: source, Drains: source}).Serve(ctx, l) }()
		through := socket
		var cut func()
		if name == "killed" {
			through, cut = relay(t, socket)
		} else {
			cut = stop
		}
		child, out, stderr := start(t, "--socket", through, "drain", "k8s-3")
		until(t, out, "waiting for quiet")
		if name == "stopped" {
			time.Sleep(5500 * time.Millisecond) // longer than the default timeout
		}
		cut()
		_, _ = io.Copy(io.Discard, out)
		_ = child.Wait()
		if code := child.ProcessState.ExitCode(); code != 1 || stderr.String() != want {
			t.Errorf("%s: exit %d, %q; want %q", name, code, stderr.String(), want)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// A drain that took too long has an exit code of its own.
func TestDrainTakesTooLong(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		_ = report(routing.DrainStatus{Request: req, Progress: routing.DrainProgress{Phase: routing.DrainEnded, Error: "not quiet after 5m0s"}})
		return context.DeadlineExceeded
	}
	out, errs, code := run(0, "--socket", servertest.Start(t, source), "drain")
	if code != 5 || errs != "netclassctl: drain k8s-1: it took too long\n" || strings.Contains(out, "DRAINED") || !strings.Contains(out, "failed") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// What cannot be asked for has the exit code that it has of this node, also when
// another one says so.
func TestBadQuestionOfAnotherNode(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, _ func(routing.DrainStatus) error) error {
		if req.Classes[0] == "nope" {
			return &routing.BadQuestion{Field: "classes", Problem: "there is no class \"nope\"", Missing: "nope"}
		}
		return &routing.BadQuestion{Field: "classes", Problem: "there is nothing of ceph-replication that a drain could take out"}
	}
	socket := servertest.Start(t, source)
	for class, code := range map[string]int{"nope": 4, "ceph-replication": 2} {
		out, errs, got := run(0, "--socket", socket, "drain", "k8s-2", "--class", class)
		outHere, errsHere, gotHere := run(0, "--socket", socket, "drain", "--class", class)
		if got != code || gotHere != code || errs != errsHere || out != "" || outHere != "" {
			t.Errorf("of another node: exit %d, %q, %q; of this one: exit %d, %q, %q", got, out, errs, gotHere, outHere, errsHere)
		}
	}
}

// Since when another node is drained is told as its clock said it, never as a time
// between two clocks.
func TestDrainedAlready(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		return report(routing.DrainStatus{Request: req, Since: servertest.Now.Add(time.Hour), Progress: routing.DrainProgress{Phase: routing.DrainDone, Step: routing.DrainPaths}})
	}
	socket := servertest.Start(t, source)
	for node, want := range map[string]string{
		"k8s-2": "DRAINED k8s-2 already, since 2026-03-01 13:00:00 (its clock)\n", "": "DRAINED k8s-1 already, for 0s\n",
	} {
		args := []string{"--socket", socket, "drain"}
		if node != "" {
			args = append(args, node)
		}
		if out, errs, code := run(0, args...); code != 0 || out != want {
			t.Errorf("exit %d, %q, %q; want %q", code, out, errs, want)
		}
	}
}

// Whose lock it is can only be said where there is one.
func TestRefusalNamesALockThatIs(t *testing.T) {
	t.Parallel()
	for reason, lock := range map[string]bool{
		"k8s-2 holds the drain lease: undrain it first":        true,
		"k8s-2 began to drain before: undrain it first":        false,
		"k8s-1 is the last that announces 10.47.64.10: wait":   false,
		"the lock is held by the Node with UID 5f, not known:": true,
	} {
		source := servertest.NewSource(servertest.Healthy())
		source.OnDrain = func(context.Context, routing.DrainRequest, bool, func(routing.DrainStatus) error) error {
			return &routing.Refused{Reasons: []string{reason}}
		}
		_, errs, code := run(0, "--socket", servertest.Start(t, source), "drain")
		if code != 1 || !strings.Contains(errs, "--force drains it all the same") || strings.Contains(errs, "--holder") != lock {
			t.Errorf("exit %d, %q", code, errs)
		}
	}
}

// Where a line cannot be written over, rates are said now and then.
func TestRatesWithoutATerminal(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		st := routing.DrainStatus{Request: req, Progress: routing.DrainProgress{Phase: routing.DrainGoing, Step: routing.DrainPaths, Message: "waiting for quiet"}}
		for range 50 {
			st.Progress.Rates = []routing.LinkRate{{Link: "pod0\x1b[2J", Received: 12}}
			_ = report(st)
			time.Sleep(time.Millisecond)
		}
		st.Progress.Phase, st.Progress.Message = routing.DrainDone, "quiet for 5s"
		return report(st)
	}
	out, _, code := run(0, "--socket", servertest.Start(t, source), "drain")
	if code != 0 || strings.Count(out, "packets/s: pod0") != 1 || strings.Count(out, "waiting for quiet") != 1 || strings.ContainsAny(out, "\x1b\r") || !strings.HasSuffix(out, "quiet for 5s\nDRAINED k8s-1 in 0s\n") {
		t.Errorf("exit %d, %q", code, out)
	}
}

// start runs netclassctl as a process of its own.
func start(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader, *strings.Builder) {
	t.Helper()
	child := exec.Command("/proc/self/exe", args...)
	child.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	var stderr strings.Builder
	child.Stderr = &stderr
	pipe, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	return child, bufio.NewReader(pipe), &stderr
}

func until(t *testing.T, out *bufio.Reader, part string) {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if strings.Contains(line, part) {
			return
		}
		if err != nil {
			t.Fatalf("no line has %q", part)
		}
	}
}

// relay stands before a socket until it is cut off, as by the death of who listens.
func relay(t *testing.T, socket string) (path string, cut func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "r.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 16)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				_ = near.Close()
				continue
			}
			conns <- near
			conns <- far
			go func() { _, _ = io.Copy(far, near) }()
			go func() { _, _ = io.Copy(near, far) }()
		}
	}()
	return path, func() {
		_ = l.Close()
		for range 2 {
			_ = (<-conns).Close()
		}
	}
}
