package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/bgp"
	"netclass.dev/test/need"
)

// The test binary is its own speaker process, and its own daemon: "daemon"
// starts a speaker, prints its process ID and waits to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "speaker":
			if err := bgp.Main(); err != nil {
				fmt.Fprintln(os.Stderr, "WARN", err)
				os.Exit(1)
			}
			os.Exit(0)
		case "daemon":
			daemon(os.Args[2])
		case "closing":
			closing(os.Args[2])
		case "holder":
			fmt.Print(holderOf(netip.MustParseAddrPort(os.Args[2])))
			os.Exit(0)
		case "garbage":
			_, _ = os.NewFile(3, "").Write([]byte{3, 0xff, 0xff, 0xff})
			time.Sleep(time.Minute)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func daemon(port string) {
	n, _ := strconv.ParseUint(port, 10, 16)
	s := New(Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Set(ctx, loopback(uint16(n))); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Status().PID, s.Status().Errors)
	select {}
}

// closing starts a speaker, ends it, and prints how.
func closing(port string) {
	n, _ := strconv.ParseUint(port, 10, 16)
	s := New(Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.Set(ctx, loopback(uint16(n)))
	pid := s.Status().PID
	fmt.Println(err, syscall.Kill(pid, 0), s.Close(false), alive(pid))
	os.Exit(0)
}

// loopback listens on the machine's loopback at a high port, which disturbs
// nothing.
func loopback(port uint16) *routing.Speak {
	return &routing.Speak{
		ASN: 64512, RouterID: netip.MustParseAddr("127.0.0.1"), Port: port,
		Listen: []routing.Listen{{Addr: netip.MustParseAddr("127.0.0.1"), Link: "lo"}},
	}
}

func started(t *testing.T, cfg Config, want *routing.Speak) *Speaker {
	t.Helper()
	s := New(cfg)
	t.Cleanup(func() { _ = s.Close(false) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Set(ctx, want); err != nil {
		t.Fatal(err)
	}
	return s
}

func within(t *testing.T, d time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > d {
			t.Fatalf("not within %s: %s", d, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begun)
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// Every thread of the process holds CAP_NET_BIND_SERVICE and nothing else, is
// nobody, and cannot gain anything.
func TestPrivileges(t *testing.T) {
	need.Root(t)
	s := started(t, Config{}, loopback(18179))
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Status().PID))
	if err != nil || len(tasks) < 3 {
		t.Fatalf("%d threads: %v", len(tasks), err)
	}
	uid := strings.Split(userOf(""), ":")[0]
	gid := strings.Split(userOf(""), ":")[1]
	want := map[string]string{
		"CapInh": "0000000000000400", "CapPrm": "0000000000000400", "CapEff": "0000000000000400",
		"CapBnd": "0000000000000400", "NoNewPrivs": "1", "Groups": "",
		"Uid": strings.Join([]string{uid, uid, uid, uid}, "\t"),
		"Gid": strings.Join([]string{gid, gid, gid, gid}, "\t"),
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			k, v, _ := strings.Cut(line, ":")
			if w, ok := want[k]; ok && strings.TrimSpace(v) != w {
				t.Errorf("%s: %s is %q, want %q", task, k, strings.TrimSpace(v), w)
			}
		}
	}
}

// listens reports whether anybody listens on the address.
func listens(at string) bool {
	_, ok := listening(os.Getpid(), netip.MustParseAddrPort(at))
	return ok
}

// A killed process is replaced at once, and the new one is told everything.
func TestKilled(t *testing.T) {
	need.Root(t)
	s := started(t, Config{}, loopback(18180))
	pid := s.Status().PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	took := within(t, 10*time.Second, "another process that listens", func() bool {
		st, open := s.Status(), listens("127.0.0.1:18180")
		if st.PID == 0 || st.PID == pid {
			return false
		}
		if st.Confirmed && !open {
			t.Fatalf("confirmed by a process that does nothing yet: %+v", st)
		}
		return open
	})
	st := s.Status()
	t.Logf("listening again after %s: %+v", took, st)
	if st.Restarts != 1 || st.LastExit != "signal: killed" {
		t.Errorf("status %+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Set(ctx, loopback(18180)); err != nil {
		t.Error(err)
	}
}

// What ends every process of a container or a unit leaves the process to its
// daemon.
func TestToldToEnd(t *testing.T) {
	need.Root(t)
	s := started(t, Config{}, loopback(18185))
	pid := s.Status().PID
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if st := s.Status(); st.PID != pid || st.Restarts != 0 {
		t.Errorf("it has ended: %+v", st)
	}
}

// A daemon that may not signal the process, as in a container whose every other
// capability is dropped, ends it all the same.
func TestNotAllowedToKill(t *testing.T) {
	need.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, need.Program(t, "setpriv"), "--bounding-set=-kill", os.Args[0], "closing", "18186").CombinedOutput()
	if want := "<nil> operation not permitted <nil> false\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// The process ends with its daemon, and the next daemon's can listen at once.
func TestDaemonKilled(t *testing.T) {
	need.Root(t)
	run := func() (*exec.Cmd, int) {
		cmd := exec.Command("/proc/self/exe", "daemon", "18181")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		var pid int
		var errs string
		if _, err := fmt.Fscanln(out, &pid, &errs); err != nil || errs != "[]" {
			t.Fatalf("daemon's speaker: pid %d, errors %s: %v", pid, errs, err)
		}
		return cmd, pid
	}
	first, pid := run()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	second, next := run()
	t.Logf("the first one's speaker was gone %s later", within(t, 500*time.Millisecond, "the speaker ended", func() bool { return !alive(pid) }))
	_ = second.Process.Kill()
	within(t, 500*time.Millisecond, "the speaker ended", func() bool { return !alive(next) })
}

// An address that cannot be listened on is named with its holder, takes no
// other down, and is taken once it is free.
func TestListenBusy(t *testing.T) {
	need.Root(t)
	first := started(t, Config{}, loopback(18182))
	want := loopback(18182)
	want.Listen = append(want.Listen,
		routing.Listen{Addr: netip.MustParseAddr("127.0.0.2"), Link: "lo"},
		routing.Listen{Addr: netip.MustParseAddr("192.0.2.1"), Link: "lo"})
	second := started(t, Config{}, want)
	within(t, 10*time.Second, "errors", func() bool { return len(second.Status().Errors) == 2 })
	busy := fmt.Sprintf("listen on 127.0.0.1:18182: address already in use by netclass-bgp (pid %d)", first.Status().PID)
	gone := "listen on 192.0.2.1:18182 (lo): cannot assign requested address"
	if errs := second.Status().Errors; errs[0] != busy || errs[1] != gone {
		t.Errorf("errors %q, want %q and %q", errs, busy, gone)
	}
	if !listens("127.0.0.2:18182") {
		t.Error("nobody listens on 127.0.0.2")
	}
	pid := second.Status().PID
	if err := first.Close(false); err != nil {
		t.Fatal(err)
	}
	within(t, 4*time.Second, "the address taken", func() bool { return len(second.Status().Errors) == 1 })
	if now := second.Status().PID; now != pid {
		t.Error("the process was replaced for it")
	}
}

// What is wanted already is not sent again; an AS number needs a new process.
func TestSet(t *testing.T) {
	need.Root(t)
	s := started(t, Config{}, loopback(18183))
	pid, seq := s.Status().PID, s.seq
	if err := s.Set(t.Context(), loopback(18183)); err != nil || s.seq != seq {
		t.Errorf("order %d after %d: %v", s.seq, seq, err)
	}
	other := loopback(18183)
	other.ASN = 64999
	if err := s.Set(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); st.PID == pid || st.Restarts != 0 {
		t.Errorf("not renewed, or that counts as a restart: %+v", st)
	}
	if err := s.Set(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); st.Wanted || st.PID != 0 || listens("127.0.0.1:18183") {
		t.Errorf("status %+v after the end, and the port is held: %v", st, listens("127.0.0.1:18183"))
	}
	if err := s.Set(t.Context(), other); err != nil {
		t.Fatal(err)
	}
}

// A process that sends garbage is killed and replaced, without end but ever
// more slowly.
func TestGarbage(t *testing.T) {
	need.Root(t)
	s := New(Config{Command: func() *exec.Cmd { return exec.Command("/proc/self/exe", "garbage") }})
	t.Cleanup(func() { _ = s.Close(false) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := s.Set(ctx, loopback(18184))
	if err == nil || !strings.Contains(err.Error(), "garbage") {
		t.Fatalf("Set returned %v", err)
	}
	if st := s.Status(); st.Restarts != quickRestarts+1 {
		t.Errorf("status %+v", st)
	}
}

// lingering is a process that is not gone though it has been killed, for its
// standard error is held by another.
func lingering(seconds string) Config {
	return Config{Command: func() *exec.Cmd {
		return exec.Command("/bin/sh", "-c", "sleep "+seconds+` >&2 & exec "$0" speaker`, os.Args[0])
	}}
}

// TestDoesNotEnd: a process that does not end keeps nobody waiting, and is named
// until it has.
func TestDoesNotEnd(t *testing.T) {
	need.Root(t)
	t.Parallel()
	s := started(t, lingering("4"), loopback(18187))
	pid, begun := s.Status().PID, time.Now()
	err := s.Close(false)
	if took := time.Since(begun); err == nil || took > endWait+10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	if st := s.Status(); st.Wanted || st.PID != pid {
		t.Errorf("status %+v", st)
	}
	within(t, 5*time.Second, "it has ended", func() bool { return s.Status().PID == 0 })
}

// TestSuccessorOfWhatDoesNotEnd: it is not mistaken for the one before.
func TestSuccessorOfWhatDoesNotEnd(t *testing.T) {
	need.Root(t)
	t.Parallel()
	s := started(t, lingering("5"), loopback(18188))
	pid, begun := s.Status().PID, time.Now()
	if err := s.Set(t.Context(), nil); err == nil {
		t.Error("it has ended")
	}
	if err := s.Set(t.Context(), loopback(18188)); err != nil {
		t.Error(err)
	}
	next := s.Status().PID
	if next == 0 || next == pid {
		t.Errorf("the next is %d, the first was %d", next, pid)
	}
	time.Sleep(time.Until(begun.Add(5500 * time.Millisecond)))
	if st := s.Status(); st.PID != next || !st.Confirmed || !listens("127.0.0.1:18188") {
		t.Errorf("the end of the first has ended the next: %+v", st)
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	now := time.Unix(0, 0)
	for i := range quickRestarts {
		if d := b.next(now, 0); d != 0 {
			t.Fatalf("death %d: wait %s", i, d)
		}
	}
	var got []time.Duration
	for range 7 {
		d := b.next(now, 0)
		got = append(got, d/time.Second)
		now = now.Add(d)
	}
	if s := fmt.Sprint(got); s != "[1ns 2ns 4ns 8ns 16ns 30ns 30ns]" {
		t.Error(s)
	}
	if d := b.next(now, 2*time.Minute); d != 0 {
		t.Errorf("after a long life: wait %s", d)
	}
}
