package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Speaker returns the number of the daemon's speaker process: its only child.
func (d *Netclassd) Speaker() (int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.PID()))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if fields := strings.Fields(string(b)); len(fields) > 0 {
			return strconv.Atoi(fields[0])
		}
	}
	return 0, fmt.Errorf("netclassd on %s has no speaker", d.Node.Name)
}

// KillSpeaker kills the speaker process with SIGKILL.
func (d *Netclassd) KillSpeaker() error {
	pid, err := d.Speaker()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill speaker on %s: %w", d.Node.Name, err)
	}
	return nil
}

// PSS returns the memory of the daemon and its speaker in bytes: what they share
// with each other is counted once.
func (d *Netclassd) PSS() (uint64, error) {
	pids := []int{d.PID()}
	if speaker, err := d.Speaker(); err == nil {
		pids = append(pids, speaker)
	}
	var sum uint64
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, fmt.Errorf("read memory of netclassd on %s: %w", d.Node.Name, err)
		}
		m := pssLine.FindSubmatch(b)
		if m == nil {
			return 0, fmt.Errorf("read memory of process %d: no Pss line", pid)
		}
		kilobytes, err := strconv.ParseUint(string(m[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kilobytes << 10
	}
	return sum, nil
}

var pssLine = regexp.MustCompile(`(?m)^Pss:\s+(\d+) kB`)

// VoluntarySwitches returns how often threads of the daemon have given up the
// processor since they began: how busy it is when there is nothing to do. The
// speaker is not counted.
func (d *Netclassd) VoluntarySwitches() (uint64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", d.PID()))
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		m := switchesLine.FindSubmatch(b)
		if m == nil {
			return 0, fmt.Errorf("read %s: no voluntary_ctxt_switches line", file)
		}
		n, err := strconv.ParseUint(string(m[1]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		sum += n
	}
	return sum, nil
}

var switchesLine = regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s+(\d+)$`)
