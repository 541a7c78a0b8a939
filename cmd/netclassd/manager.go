package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"netclass.dev/routing"
)

// systemdTime bounds the question to systemd; a stop is to be over in 2 s.
const systemdTime = 500 * time.Millisecond

// manager is the service manager that runs us, as far as we can ask it.
type manager struct {
	cgroup    string // the file that names our unit
	systemctl string // the program that asks
}

var systemd = manager{cgroup: "/proc/self/cgroup", systemctl: "systemctl"}

// exitPolicy decides what auto means for this end: flush when the service manager
// is stopping us for good, which a system that shuts down does too; keep when it
// restarts us, and where it cannot be told, for keeping loses nothing.
func (m manager) exitPolicy() (policy routing.ExitPolicy, why string) {
	if os.Getenv("INVOCATION_ID") == "" && os.Getenv("NOTIFY_SOCKET") == "" {
		return routing.ExitKeep, "no service manager to ask"
	}
	unit, err := m.unit()
	if err != nil {
		return routing.ExitKeep, err.Error()
	}
	job, err := m.job(unit)
	switch {
	case err != nil:
		return routing.ExitKeep, err.Error()
	case job == "stop":
		return routing.ExitFlush, unit + " is being stopped"
	case job == "":
		return routing.ExitKeep, unit + " has no job"
	}
	return routing.ExitKeep, unit + " has the job " + job
}

// unit returns the name of the unit that we run in (systemd.unit(5)): the service
// in our control group's path.
func (m manager) unit() (string, error) {
	text, err := os.ReadFile(m.cgroup)
	if err != nil {
		return "", fmt.Errorf("find own unit: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// Version 2 is hierarchy 0; version 1 has one named systemd.
		hierarchy, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
		if hierarchy != "0:" && !strings.HasSuffix(hierarchy, ":name=systemd") {
			continue
		}
		for name := range strings.SplitSeq(path, "/") {
			if strings.HasSuffix(name, ".service") {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("find own unit: none in %s", m.cgroup)
}

// job returns the type of the unit's job that is under way: "stop", or "restart"
// until what runs has ended. It is empty when there is none.
func (m manager) job(unit string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), systemdTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.systemctl, "list-jobs", "--no-legend", "--no-pager", "--plain", "--full", unit)
	cmd.WaitDelay = systemdTime
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask systemd for the job of %s: %w", unit, err)
	}
	for line := range strings.Lines(string(out)) {
		// JOB UNIT TYPE STATE
		if f := strings.Fields(line); len(f) == 4 && f[1] == unit {
			return f[2], nil
		}
	}
	return "", nil
}
