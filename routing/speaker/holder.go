package speaker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
)

// maxErrors bounds a condition.
const maxErrors = 10_000

// conditionErrors puts a condition into words. Who has an address is only
// visible to the daemon's user.
func conditionErrors(m *speakerv1.Condition, port uint16) ([]string, error) {
	if len(m.GetErrors())+len(m.GetBusy()) > maxErrors {
		return nil, fmt.Errorf("condition with %d errors", len(m.GetErrors())+len(m.GetBusy()))
	}
	var errs []string
	for _, b := range m.GetBusy() {
		a, ok := netip.AddrFromSlice(b.GetAddress())
		if !ok {
			return nil, fmt.Errorf("busy address of %d bytes", len(b.GetAddress()))
		}
		at := netip.AddrPortFrom(a, port)
		text := fmt.Sprintf("listen on %s: address already in use", at)
		if by := holder(at); by != "" {
			text += " by " + by
		}
		errs = append(errs, text)
	}
	return append(errs, m.GetErrors()...), nil
}

// holder names the process that listens on the address, or on all addresses;
// empty when it cannot be seen.
func holder(at netip.AddrPort) string {
	inode := listeningInode("/proc/self/net/tcp6", at)
	if at.Addr().Is4() {
		if inode = listeningInode("/proc/self/net/tcp", at); inode == "" {
			inode = listeningInode("/proc/self/net/tcp6", at)
		}
	}
	if inode == "" {
		return ""
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
			pid := strings.Split(fd, "/")[2]
			comm, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), pid)
		}
	}
	return ""
}

// listeningInode finds a listening socket in a table of /proc/net.
func listeningInode(table string, at netip.AddrPort) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
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
			return col[9]
		}
	}
	return ""
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
