package kernel_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing/kernel"
	"netclass.dev/test/need"
	"netclass.dev/test/netns"
)

// claimEnv makes the test binary a process that claims the namespace it is in,
// and keeps it.
const claimEnv = "NETCLASS_TEST_CLAIM"

func TestMain(m *testing.M) {
	if os.Getenv(claimEnv) == "" {
		os.Exit(m.Run())
	}
	if _, err := kernel.Claim(context.Background(), quiet); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("claimed")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

var quiet = slog.New(slog.DiscardHandler)

// claim claims a namespace for this process.
func claim(t *testing.T, n *netns.NS, log *slog.Logger) (c io.Closer, err error) {
	t.Helper()
	_ = n.Do(func() error {
		c, err = kernel.Claim(t.Context(), log)
		return nil
	})
	return c, err
}

// claimer starts a process that claims a namespace, as that user.
func claimer(t *testing.T, n *netns.NS, user uint32) *exec.Cmd {
	t.Helper()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), claimEnv+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := child.StdoutPipe()
	must(t, err)
	_, err = child.StdinPipe()
	must(t, err)
	must(t, n.Start(child))
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "claimed\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	return child
}

// One netclassd has a namespace, whatever files it uses; each other namespace is
// another's to have.
func TestClaim(t *testing.T) {
	t.Parallel()
	n, other := netns.New(t), netns.New(t)
	first := claimer(t, n, 0)
	want := fmt.Sprintf("claim the network namespace: another netclassd (pid %d) holds it", first.Process.Pid)
	for range 2 { // the first to ask leaves the second an answer
		if _, err := claim(t, n, quiet); err == nil || err.Error() != want {
			t.Errorf("beside another: %v; want %s", err, want)
		}
	}
	c, err := claim(t, other, quiet)
	must(t, err)
	must(t, c.Close())

	must(t, first.Process.Kill())
	_ = first.Wait()
	begin := time.Now()
	c, err = claim(t, n, quiet)
	must(t, err)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("after a kill it takes %v", took)
	}
	time.AfterFunc(600*time.Millisecond, func() { _ = c.Close() })
	next, err := claim(t, n, quiet)
	if err != nil {
		t.Fatalf("while the other is ending: %v", err)
	}
	must(t, next.Close())
}

// Who could change no route keeps no netclassd from starting.
func TestClaimOfAStranger(t *testing.T) {
	t.Parallel()
	n := netns.New(t)
	stranger := claimer(t, n, 65534)
	var said bytes.Buffer
	c, err := claim(t, n, slog.New(slog.NewTextHandler(&said, nil)))
	must(t, err)
	must(t, c.Close())
	if want := fmt.Sprintf("pid=%d", stranger.Process.Pid); !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "not claimed") {
		t.Errorf("logged %q", said.String())
	}
}

func TestMayRoute(t *testing.T) {
	need.Root(t)
	t.Parallel()
	if err := kernel.MayRoute(); err != nil {
		t.Errorf("with every capability: %v", err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // which ends with its goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		data[0].Effective, data[0].Permitted = 1<<unix.CAP_NET_BIND_SERVICE, 1<<unix.CAP_NET_BIND_SERVICE
		if err := unix.Capset(&header, &data[0]); err != nil {
			failed <- err
			return
		}
		failed <- kernel.MayRoute()
	}()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the capability CAP_NET_ADMIN is missing") {
		t.Errorf("without it: %v", err)
	}
}
