package speaker

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"netclass.dev/test/need"
)

// TestHolder: who has an address is named by root, and by another user as far as that
// one can see.
func TestHolder(t *testing.T) {
	need.Root(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if got, want := holderOf(at), fmt.Sprintf("speaker.test (pid %d)", os.Getpid()); got != want {
		t.Errorf("for root it is %q, want %q", got, want)
	}
	// The packaged daemon is no root either.
	cmd := exec.Command("/proc/self/exe", "holder", at.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("a process of user root that cannot be seen from here; on the host root is told by: ss -ltnp 'sport = :%d'", at.Port())
	if err != nil || string(out) != want {
		t.Fatalf("for another user it is %q, %v, want %q", out, err, want)
	}
	// And that does name it.
	ss := strings.SplitN(want, "told by: ", 2)[1]
	need.Program(t, "ss")
	if out, err := exec.Command("sh", "-c", ss).CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("pid=%d", os.Getpid())) {
		t.Errorf("%s: %v: %s", ss, err, out)
	}
}

// holderOf names who listens on an address in our network namespace.
func holderOf(at netip.AddrPort) string {
	l, ok := listening(os.Getpid(), at)
	if !ok {
		return "nobody"
	}
	return l.holder(at.Port())
}
