package server_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"netclass.dev/server"
	"netclass.dev/test/need"
)

// With readers, folder and socket are theirs too, and root's alone without; the
// process's mask decides nothing and stays as it is.
func TestSocketModeAndGroup(t *testing.T) {
	need.Root(t)
	for _, c := range []struct {
		group          string
		folder, socket fs.FileMode
		gid            uint32
	}{
		{"adm", 0o750, 0o660, groupID(t, "adm")},
		{"", 0o700, 0o600, 0},
		{"no-such-group", 0o700, 0o600, 0},
	} {
		for _, mask := range []int{0, 0o022, 0o777} {
			before := syscall.Umask(mask)
			base := filepath.Join(t.TempDir(), "run")
			syscall.Umask(before)
			path := filepath.Join(base, "n.sock")
			syscall.Umask(mask)
			l, err := server.Listen(path, c.group)
			if after := syscall.Umask(before); after != mask {
				t.Errorf("the mask became %o", after)
			}
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]fs.FileMode{base: c.folder, path: c.socket, path + ".lock": 0o600} {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Mode().Perm(); got != want {
					t.Errorf("group %q, mask %o: %s is %o, want %o", c.group, mask, path, got, want)
				}
				if gid := info.Sys().(*syscall.Stat_t).Gid; gid != c.gid {
					t.Errorf("group %q: %s belongs to group %d, want %d", c.group, path, gid, c.gid)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); err == nil {
				t.Error("the socket is still there after Close")
			}
		}
	}
}

func groupID(t *testing.T, name string) uint32 {
	t.Helper()
	gid, err := strconv.Atoi(need.Group(t, name).Gid)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(gid)
}

// The mode is right from the first moment that the socket can be seen.
func TestSocketModeAtBind(t *testing.T) {
	need.Root(t)
	path := filepath.Join(t.TempDir(), "n.sock")
	var stop atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		for !stop.Load() {
			if info, err := os.Lstat(path); err == nil && info.Mode().Perm() != 0o660 {
				t.Errorf("seen with mode %o", info.Mode().Perm())
				return
			}
		}
	})
	for range 200 {
		l, err := server.Listen(path, "adm")
		if err != nil {
			t.Error(err)
			break
		}
		_ = l.Close()
	}
	stop.Store(true)
	wait.Wait()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "n.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestWhatIsNotOursStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := filepath.Join(dir, "live")
	other, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(live, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"live": "another program listens there", "file": "not a socket", "folder": "not a socket", "link": "not a socket",
	} {
		path := filepath.Join(dir, name)
		l, err := server.Listen(path, "")
		if err == nil {
			_ = l.Close()
			t.Errorf("%s: taken", name)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestImpossiblePaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "@abstract", "\x00abstract", "a\x00b", "/" + strings.Repeat("x", 107), "/proc/no/such/n.sock"} {
		if l, err := server.Listen(path, ""); err == nil {
			_ = l.Close()
			t.Errorf("%q: taken", path)
		}
	}
}

// Of many starters at once on a dead daemon's socket exactly one wins, and the
// others name it.
func TestTwoStarters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "n.sock")
	for range 20 {
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		stale.SetUnlinkOnClose(false)
		_ = stale.Close()

		var wait sync.WaitGroup
		var won atomic.Int32
		winners := make(chan net.Listener, 8)
		for range 8 {
			wait.Go(func() {
				l, err := server.Listen(path, "")
				if err == nil {
					won.Add(1)
					winners <- l
				} else if want := fmt.Sprintf("another netclassd (pid %d) holds it", os.Getpid()); !strings.Contains(err.Error(), want) {
					t.Errorf("a loser says %v", err)
				}
			})
		}
		wait.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d starters won", won.Load())
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		_ = (<-winners).Close()
	}
}

// A killed process leaves socket and lock file; both are free again at once.
func TestAfterKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "n.sock")
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), childEnv+"=listen", "NETCLASS_TEST_SOCKET="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "listening\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if _, err := server.Listen(path, ""); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another netclassd (pid %d)", child.Process.Pid)) {
		t.Errorf("while it lives: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal("the child left no socket: nothing is tested")
	}
	l, err := server.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
