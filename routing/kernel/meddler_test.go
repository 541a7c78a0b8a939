package kernel_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
)

// Who changes what is ours is known by the socket that it came from; what is
// not ours, and what we or the kernel do, says nothing.
func TestMeddler(t *testing.T) {
	n := newNode(t)
	n.k.SetRange([]routing.Protocol{routing.ProtocolNetclass}, []routing.TableID{47})
	events := watching(t, n.k)
	own := rule(routing.IPv4, 1000, from("10.244.0.0/16"))
	path := route(t, "10.1.0.0/16 dev pod0")
	n.apply(t, addRule(own), add(path))
	n.MustIP(t, "route add 10.3.0.0/16 dev pod0 table 47 proto bird")
	n.MustIP(t, "rule add from 10.9.0.0/16 lookup 99 priority 9")
	heard(events, time.Second)
	if who, at := n.k.Meddler(); who != "" || !at.IsZero() {
		t.Errorf("meddler %q at %v", who, at)
	}
	ip := exec.Command("ip", "-batch", "-") // lives as long as its input
	input, err := ip.StdinPipe()
	must(t, err)
	must(t, n.Start(ip))
	defer func() { _ = input.Close(); _ = ip.Wait() }()
	for _, line := range []string{"route del 10.1.0.0/16 table 47", "rule del from 10.244.0.0/16 priority 1000"} {
		before := time.Now()
		_, err := fmt.Fprintln(input, line)
		must(t, err)
		eventually(t, func() error {
			who, at := n.k.Meddler()
			if who != fmt.Sprintf("ip (pid %d)", ip.Process.Pid) || at.Before(before) {
				return fmt.Errorf("%s: meddler %q at %v, want ip (pid %d) since %v", line, who, at, ip.Process.Pid, before)
			}
			return nil
		})
	}
}

// A subscription that cannot be made is an error, not a wait.
func TestWatchCannotSubscribe(t *testing.T) {
	n := newNode(t)
	fd, err := unix.FcntlInt(uintptr(n.Fd()), unix.F_DUPFD_CLOEXEC, 500)
	must(t, err)
	defer func() { _ = unix.Close(fd) }()
	k, err := kernel.Open(kernel.Config{NetNS: fd})
	must(t, err)
	defer func() { _ = k.Close() }()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer func() { _ = null.Close() }()
	must(t, unix.Dup3(int(null.Fd()), fd, unix.O_CLOEXEC))
	done := make(chan error, 1)
	go func() { done <- k.Watch(context.Background(), func(bool) { t.Error("notified") }) }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "subscribe to kernel events") {
			t.Errorf("error %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it waits")
	}
}
