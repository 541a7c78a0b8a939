package systemd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// makeGroup makes a control group below our own, in the unified hierarchy: of two
// machines in one, each would take the other's services for its own.
func (m *machine) makeGroup(name string) {
	m.t.Helper()
	ours, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := exec.Command("findmnt", "--noheadings", "--first-only", "--types=cgroup2", "--output=TARGET").Output()
	need.Feature(m.t, "cgroup2", err)
	var below string
	for line := range strings.Lines(string(ours)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			below = path
		}
	}
	m.group = filepath.Join(strings.TrimSpace(string(out)), below, name)
	if err := os.Mkdir(m.group, 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// removeGroup removes a control group. The kernel lets go of processes a moment
// after they have ended.
func removeGroup(group string) error {
	if group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return lab.Eventually(ctx, func() error { return removeTree(group) })
}

// removeTree removes a control group with those below it. The files in them are
// the kernel's.
func removeTree(group string) error {
	entries, err := os.ReadDir(group)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(group, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(group)
}
