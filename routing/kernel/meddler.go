package kernel

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// meddler is the newest change of something of ours by another program, as far
// as events tell: each carries the netlink port of its cause, 0 for the kernel
// itself.
type meddler struct {
	mu    sync.Mutex
	port  uint32 // 0: it is not known whose change it was
	at    time.Time
	name  string    // of port; empty: it cannot be seen, or not yet
	asked time.Time // when a name was last looked for
}

// nameGap is the least time between two looks for a name, which on a large
// machine go through very many files.
const nameGap = time.Second

// Meddler says which other program has last changed a rule or a route with one
// of our protocol numbers, as "name (pid n)", and when. Programs that have
// ended since have no name.
func (k *Kernel) Meddler() (who string, at time.Time) {
	m := &k.meddler
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.name, m.at
}

// noteMeddler takes in an event of another program's change.
func (k *Kernel) noteMeddler(m message) {
	if m.port == 0 || m.port == k.port || !k.watched.Load().ours(m) {
		return
	}
	d := &k.meddler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Now()
	switch {
	case d.port == m.port:
	case d.at.Sub(d.asked) < nameGap:
		d.port, d.name = 0, ""
	default:
		d.port, d.name, d.asked = m.port, "", d.at
		go d.find(m.port) // events must not wait for it
	}
}

// find looks for the name of whoever has a port.
func (d *meddler) find(port uint32) {
	name := portHolder(port)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.port == port {
		d.name = name
	}
}

// ours reports whether an event is about a rule or route with one of our
// protocol numbers.
func (w *watchRange) ours(m message) bool {
	switch m.kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(m.data) >= unix.SizeofRtMsg && w.protocols[routing.Protocol(m.data[5])]
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		if len(m.data) < ruleHeaderLen {
			return false
		}
		for kind, v := range attributes(m.data[ruleHeaderLen:]) {
			if kind == unix.FRA_PROTOCOL && len(v) == 1 {
				return w.protocols[routing.Protocol(v[0])]
			}
		}
	}
	return false
}

// portHolder names the process that has a netlink port; empty when it cannot be
// seen. A process's first socket usually has its number; others are looked for.
func portHolder(port uint32) string {
	if name := processName(strconv.FormatUint(uint64(port), 10)); name != "" {
		return name
	}
	inode := netlinkInode(port)
	if inode == "" {
		return ""
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
			return processName(strings.Split(fd, "/")[2])
		}
	}
	return ""
}

func processName(pid string) string {
	comm, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s (pid %s)", strings.ToValidUTF8(strings.TrimSpace(string(comm)), "?"), pid)
}

// netlinkInode finds an rtnetlink socket by its port in /proc/net/netlink.
func netlinkInode(port uint32) string {
	f, err := os.Open("/proc/self/net/netlink")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	want := strconv.FormatUint(uint64(port), 10)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		// sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
		col := strings.Fields(sc.Text())
		if len(col) == 10 && col[1] == "0" && col[2] == want {
			return col[9]
		}
	}
	return ""
}
