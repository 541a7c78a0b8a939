// Package netns gives tests network namespaces as values: anonymous, opened by
// file descriptor, usable in parallel, gone when closed. The machine's own
// namespace is never touched.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"netclass.dev/test/need"
)

// NS is a network namespace that lives as long as it is open (or a process or
// socket is in it). Its loopback link is up.
type NS struct {
	file   *os.File
	handle *netlink.Handle
}

// Create makes a new, anonymous namespace. It needs root.
func Create() (*NS, error) {
	var n NS
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		n.file = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n.handle, err = netlink.NewHandleAt(vnetns.NsHandle(n.Fd()), unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink in namespace: %w", err), n.file.Close())
	}
	if err := n.Up("lo"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return &n, nil
}

// New makes a namespace that is closed when the test ends. Without root it
// skips the test.
func New(t testing.TB) *NS {
	t.Helper()
	need.Root(t)
	n, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// Close lets go of the namespace. The kernel removes it with its links once
// nothing else uses it.
func (n *NS) Close() error {
	n.handle.Close()
	return n.file.Close()
}

// Fd returns the namespace's file descriptor, valid until Close.
func (n *NS) Fd() int { return int(n.file.Fd()) }

// File returns the open namespace, for handing it to a process.
func (n *NS) File() *os.File { return n.file }

// Handle returns a netlink handle inside the namespace.
func (n *NS) Handle() *netlink.Handle { return n.handle }

// Do runs fn inside the namespace, on an operating system thread of its own.
// Sockets opened and processes started by fn stay in the namespace. Goroutines
// started by fn do not run there.
func (n *NS) Do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(n.Fd(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return fn()
	})
}

// Start starts a command inside the namespace. The command must not ask for a
// parent death signal: the thread that starts it ends at once.
func (n *NS) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// Run runs a program inside the namespace to its end and returns what it
// printed.
func (n *NS) Run(name string, args ...string) (string, error) {
	var out []byte
	err := n.Do(func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// IP runs `ip` with the words of args inside the namespace.
func (n *NS) IP(args string) (string, error) { return n.Run("ip", strings.Fields(args)...) }

// MustIP is IP for tests, where a failure is fatal.
func (n *NS) MustIP(t testing.TB, args string) string {
	t.Helper()
	out, err := n.IP(args)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Sysctl sets a setting below /proc/sys/net, such as
// "ipv4/conf/all/forwarding", inside the namespace.
func (n *NS) Sysctl(name, value string) error {
	return n.Do(func() error {
		if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0); err != nil {
			return fmt.Errorf("set sysctl %s: %w", name, err)
		}
		return nil
	})
}

// onThread runs fn on a thread that is thrown away afterwards, since its
// namespace is no longer that of the process.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := errors.New("the function ended its goroutine")
		defer func() { done <- err }()
		err = fn()
	}()
	return <-done
}
