package speaker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
)

const (
	// maxErrors bounds a condition.
	maxErrors = 10_000
	// holdersAgain is how often those who have our addresses are looked at: one
	// may make room for another.
	holdersAgain = 2 * time.Second
)

// condition is what the process says is not as it should be.
type condition struct {
	errors []string
	busy   []netip.AddrPort // another socket listens there
	by     []held           // who has each of busy
}

// held is who listens on an address; the zero value: nobody that can be seen.
type held struct {
	socket listener
	name   string
}

func conditionFrom(m *speakerv1.Condition, port uint16) (c condition, err error) {
	if len(m.GetErrors())+len(m.GetBusy()) > maxErrors {
		return c, fmt.Errorf("condition with %d errors", len(m.GetErrors())+len(m.GetBusy()))
	}
	for _, b := range m.GetBusy() {
		a, ok := netip.AddrFromSlice(b.GetAddress())
		if !ok {
			return c, fmt.Errorf("busy address of %d bytes", len(b.GetAddress()))
		}
		c.busy = append(c.busy, netip.AddrPortFrom(a, port))
	}
	c.errors = m.GetErrors()
	return c, nil
}

// identify finds out who has the addresses, as only the daemon's user can see.
// What is known of a socket stays: to find its process takes a look at all.
func (c *condition) identify(pid int) {
	known := c.by
	c.by = make([]held, len(c.busy))
	for i, at := range c.busy {
		socket, ok := listening(pid, at)
		switch {
		case !ok:
		case i < len(known) && known[i].socket == socket:
			c.by[i] = known[i]
		default:
			c.by[i] = held{socket: socket, name: socket.holder(at.Port())}
		}
	}
}

// texts puts it into words.
func (c *condition) texts() []string {
	var list []string
	for i, at := range c.busy {
		text := fmt.Sprintf("listen on %s: address already in use", at)
		if by := c.by[i].name; by != "" {
			text += " by " + by
		}
		list = append(list, text)
	}
	return append(list, c.errors...)
}

// watchHolders looks again and again who has the addresses of a condition, until
// it is another.
func (s *Speaker) watchHolders(c *child, at *condition) {
	if len(at.busy) == 0 {
		return
	}
	time.AfterFunc(holdersAgain, func() {
		next := *at
		next.identify(c.cmd.Process.Pid)
		s.mu.Lock()
		current := s.child == c && s.condition == at
		news := current && !slices.Equal(next.by, at.by)
		if news {
			s.condition = &next
		}
		s.mu.Unlock()
		switch {
		case news:
			s.cfg.Notify()
			s.watchHolders(c, &next)
		case current:
			s.watchHolders(c, at)
		}
	})
}

// listener is a listening socket in a table of /proc/net.
type listener struct{ inode, uid string }

// holder names the process that has the socket. Which sockets another user's process
// has only root can see: of such a one the user is said, and how root finds it.
func (l listener) holder(port uint16) string {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+l.inode+"]" {
			pid := strings.Split(fd, "/")[2]
			comm, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), pid)
		}
	}
	owner := l.uid
	if u, err := user.LookupId(l.uid); err == nil {
		owner = u.Username
	}
	return fmt.Sprintf("a process of user %s that cannot be seen from here; on the host root is told by: ss -ltnp 'sport = :%d'", owner, port)
}

// listening finds the socket that has the address, or all addresses, in the
// network namespace of a process.
func listening(pid int, at netip.AddrPort) (listener, bool) {
	table := fmt.Sprintf("/proc/%d/net/tcp", pid)
	if at.Addr().Is4() {
		if l, ok := listeningIn(table, at); ok {
			return l, true
		}
	}
	return listeningIn(table+"6", at)
}

func listeningIn(table string, at netip.AddrPort) (listener, bool) {
	f, err := os.Open(table)
	if err != nil {
		return listener{}, false
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		col := strings.Fields(sc.Text())
		if len(col) < 10 || col[3] != "0A" || !utf8.ValidString(col[9]) {
			continue
		}
		local, ok := parseHexAddr(col[1])
		if ok && local.Port() == at.Port() && (local.Addr() == at.Addr() || local.Addr().IsUnspecified()) {
			return listener{inode: col[9], uid: col[7]}, true
		}
	}
	return listener{}, false
}

// parseHexAddr reads an address of /proc/net/tcp: 32-bit words in the machine's
// byte order, then the port.
func parseHexAddr(s string) (netip.AddrPort, bool) {
	a, p, ok := strings.Cut(s, ":")
	port, err := strconv.ParseUint(p, 16, 16)
	if !ok || err != nil || len(a)%8 != 0 {
		return netip.AddrPort{}, false
	}
	var b []byte
	for ; len(a) > 0; a = a[8:] {
		word, err := strconv.ParseUint(a[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, false
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(word))
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), ok
}
