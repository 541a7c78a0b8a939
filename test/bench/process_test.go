package bench

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
)

func nativeUint32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

var pssLine = regexp.MustCompile(`(?m)^Pss:\s+(\d+) kB`)

// pss returns a process's proportional share of memory, in MB of 2^20 bytes.
func pss(b *testing.B, pid int) float64 {
	b.Helper()
	return processMemory(b, pid, "smaps_rollup", pssLine)
}

// processMemory returns what a line of a process's file says, in MB.
func processMemory(b *testing.B, pid int, file string, line *regexp.Regexp) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		b.Fatal(err)
	}
	m := line.FindSubmatch(text)
	if m == nil {
		b.Fatalf("%s of process %d does not say it", file, pid)
	}
	kB, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kB / 1024
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`)

// peak returns the most memory that a process has had at a time, shared or not,
// in MB of 2^20 bytes.
func peak(b *testing.B, pid int) float64 {
	b.Helper()
	return processMemory(b, pid, "status", peakLine)
}

// daemonPSS returns the memory of the daemon and of its speaker, 0 without one.
func daemonPSS(b *testing.B, d *lab.Netclassd) (daemon, speaker float64) {
	b.Helper()
	if pid, err := d.Speaker(); err == nil {
		speaker = pss(b, pid)
	}
	return pss(b, d.PID()), speaker
}

// cpu returns the processor time that a process has used.
func cpu(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

var switchesLine = regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s+(\d+)$`)

// switches returns how often each thread of a process has given up the processor
// of its own accord.
func switches(b *testing.B, pid int) map[string]int {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		b.Fatal(len(files), err)
	}
	out := make(map[string]int)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if m := switchesLine.FindSubmatch(text); m != nil {
			out[file], _ = strconv.Atoi(string(m[1]))
		}
	}
	return out
}
