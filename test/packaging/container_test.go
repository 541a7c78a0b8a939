package packaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// mount is a mount of the OCI runtime specification.
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// bind mounts a file or a folder of the node.
func bind(source, destination string, options ...string) mount {
	return mount{destination, "bind", source, append([]string{"bind"}, options...)}
}

// spec is what containers differ in.
type spec struct {
	root         string
	args, env    []string
	mounts       []mount
	capabilities []string
	forbidden    []string // system calls
}

// bundle is the spec as a runtime wants it: with the mounts, the masked and the
// read-only paths that containerd gives every container. The host's network is
// that of whoever starts it.
func (s *spec) bundle() map[string]any {
	mounts := append([]mount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{"/dev/mqueue", "mqueue", "mqueue", []string{"nosuid", "noexec", "nodev"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
		{"/run", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
	}, s.mounts...)
	return map[string]any{
		"ociVersion": "1.0.0",
		"root":       map[string]any{"path": s.root, "readonly": true},
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "args": s.args, "env": s.env, "cwd": "/", "noNewPrivileges": true,
			"capabilities": map[string]any{"bounding": s.capabilities, "effective": s.capabilities, "permitted": s.capabilities},
		},
		"mounts": mounts,
		"linux": map[string]any{
			"namespaces": []map[string]string{{"type": "pid"}, {"type": "uts"}, {"type": "mount"}},
			"maskedPaths": []string{
				"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
			},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			"seccomp": map[string]any{
				"defaultAction": "SCMP_ACT_ALLOW",
				"syscalls":      []map[string]any{{"names": s.forbidden, "action": "SCMP_ACT_ERRNO"}},
			},
		},
	}
}

// What containerd's seccomp profile leaves to nobody, and what only to those who
// have CAP_SYS_ADMIN and its like.
var (
	forbiddenToAll  = []string{"add_key", "keyctl", "request_key", "kexec_load", "userfaultfd", "vmsplice", "move_pages"}
	forbiddenToMost = append([]string{
		"bpf", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "init_module", "delete_module", "mount", "mount_setattr",
		"move_mount", "open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "quotactl", "reboot", "setdomainname",
		"sethostname", "setns", "swapon", "swapoff", "syslog", "umount2", "unshare", "process_vm_readv", "ptrace",
	}, forbiddenToAll...)
)

// container is one that may be run, stopped and run again.
type container struct {
	*lab.Process
	t    *testing.T
	node *lab.Node
	name string
	spec *spec
	pid  int // of its first process, outside
}

// run starts the container on the node and waits for its first process.
func (c *container) run() {
	c.t.Helper()
	c.launch()
	c.within(10*time.Second, "the container's first process", func() (err error) {
		if !c.Running() {
			return fmt.Errorf("it has ended: %s", c.LogTail(10))
		}
		c.pid, err = first(c.PID(), filepath.Base(c.spec.args[0]))
		return err
	})
}

// launch starts the container on the node.
func (c *container) launch() {
	c.t.Helper()
	runtime, unshare := need.Program(c.t, "crun"), need.Program(c.t, "unshare")
	bundle := c.node.File(c.name)
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		c.t.Fatal(err)
	}
	text, err := json.Marshal(c.spec.bundle())
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	// The runtime and all that it starts end with us: they are in a process-number
	// namespace whose first process does. It makes no control groups, but looks for
	// what there is, and some machines have what it does not know.
	c.Process, err = c.node.Start(lab.Command{
		Path: unshare, Name: c.name,
		Args: []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
			"sh", "-c", `mount -t cgroup2 none /sys/fs/cgroup && exec "$@"`, "sh",
			runtime, "--cgroup-manager=disabled", "--root", c.node.File("crun"), "run", "--bundle", bundle, c.name},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// first finds the process of a name among the descendants of another.
func first(pid int, name string) (int, error) {
	// Any thread may have started it.
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		children, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(children)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				return 0, err
			}
			if comm, err := os.ReadFile("/proc/" + child + "/comm"); err == nil && strings.TrimSpace(string(comm)) == name {
				return n, nil
			}
			if n, err := first(n, name); err == nil {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("process %d has no descendant %s", pid, name)
}

// inside returns the numbers of all of the container's processes.
func (c *container) inside() []int {
	c.t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.pid))
	if err != nil {
		c.t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		c.t.Fatal(err)
	}
	var pids []int
	for _, link := range links {
		if ns, err := os.Readlink(link); err == nil && ns == own {
			n, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err != nil {
				c.t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}

// end sends SIGTERM to processes of the container, and fails the test unless it
// has ended with success before a runtime would use force.
func (c *container) end(pids ...int) {
	c.t.Helper()
	begin := time.Now()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			c.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		c.t.Fatalf("%s: %v; its log ends:\n%s", c.name, err, c.LogTail(10))
	}
	c.t.Logf("%s ended after %v", c.name, time.Since(begin).Round(time.Millisecond))
}

// ctl runs netclassctl inside the container, as a probe does.
func (c *container) ctl(args ...string) (string, error) {
	enter := []string{"--target", strconv.Itoa(c.pid), "--mount", "--pid", "--uts", "--root", "--wd=/", "/usr/local/bin/netclassctl"}
	return c.node.Exec(c.t.Context(), "nsenter", append(enter, args...)...)
}

// status returns a line of a process's /proc/PID/status.
func (c *container) status(pid int, key string) string {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	c.t.Fatalf("process %d has no %s", pid, key)
	return ""
}

// within waits for a condition.
func (c *container) within(limit time.Duration, what string, check func() error) {
	c.t.Helper()
	within(c.t, limit, what, check)
}

func within(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begin := time.Now()
	if err := lab.Eventually(ctx, check); err != nil {
		t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
	t.Logf("%s: after %v", what, time.Since(begin).Round(time.Millisecond))
}
