package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"

	"netclass.dev/test/netns"
)

// Host is one network namespace of the lab with what runs in it: a node, a pod,
// the router, the world or the switch.
type Host struct {
	Name string

	lab *Lab
	ns  *netns.NS
	nl  *netlink.Handle
	dir string

	mu        sync.Mutex
	closed    bool
	processes map[*Process]struct{}
}

func (l *Lab) newHost(name string) (*Host, error) {
	h := &Host{Name: name, lab: l, dir: filepath.Join(l.dir, name), processes: map[*Process]struct{}{}}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make host %s: %w", name, err)
	}
	var err error
	if h.ns, err = netns.Create(); err != nil {
		return nil, fmt.Errorf("make host %s: %w", name, err)
	}
	h.nl = h.ns.Handle()
	l.mu.Lock()
	l.hosts = append(l.hosts, h)
	l.mu.Unlock()
	return h, nil
}

// NS returns the host's namespace.
func (h *Host) NS() *netns.NS { return h.ns }

// Netlink returns a handle on the host's namespace for tests that change its
// links, rules or routes by hand.
func (h *Host) Netlink() *netlink.Handle { return h.nl }

// Dir returns the host's own directory, removed with the lab.
func (h *Host) Dir() string { return h.dir }

// File returns the path of a file in the host's directory.
func (h *Host) File(name string) string { return filepath.Join(h.dir, name) }

// Hint returns a command that opens a shell in the namespace, for a person who
// debugs a test that is paused.
func (h *Host) Hint() string {
	return fmt.Sprintf("nsenter --net=/proc/%d/fd/%d", os.Getpid(), h.ns.Fd())
}

// Do calls f on a thread in the host's namespace. Sockets that f opens belong to
// it for ever; f must not start goroutines that rely on it.
func (h *Host) Do(f func() error) error { return h.ns.Do(f) }

// Exec runs a program in the namespace and returns its standard output.
func (h *Host) Exec(ctx context.Context, name string, args ...string) (string, error) {
	return h.ExecInput(ctx, nil, name, args...)
}

// ExecInput is Exec with standard input.
func (h *Host) ExecInput(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := h.lab.launcher.start(h.ns.Fd(), cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		line := strings.Join(append([]string{name}, args...), " ")
		return stdout.String(), fmt.Errorf("run %q on %s: %w: %s", line, h.Name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Sysctl writes settings below /proc/sys/net, by path and value.
func (h *Host) Sysctl(settings map[string]string) error {
	return h.Do(func() error {
		for key, value := range settings {
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return fmt.Errorf("set %s on %s: %w", key, h.Name, err)
			}
		}
		return nil
	})
}

// KillAll kills every process that was started on the host.
func (h *Host) KillAll() error {
	var errs []error
	for _, p := range h.Processes() {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

// Processes returns what runs on the host.
func (h *Host) Processes() []*Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.processes))
}

func (h *Host) close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	return errors.Join(h.KillAll(), h.ns.Close())
}

func baseName(path string) string { return filepath.Base(path) }

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
