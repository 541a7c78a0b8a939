package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is what sockaddr_un takes, less the NUL.
const maxPath = 107

// Listen makes the daemon's unix socket. The folder is created when absent, for
// root or for the readers' group alone; the socket is open to the same from the
// moment it exists. A lock beside it, held until the listener is closed, keeps a
// second daemon out; the socket of a dead one is replaced. What is not a socket
// is never touched.
func Listen(path, readersGroup string) (net.Listener, error) {
	if path == "" || path[0] == '@' || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("listen on socket %q: not the path of a file", path)
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on socket %s: the path is %d bytes long, at most %d are possible", path, len(path), maxPath)
	}
	gid, ok := lookupGroup(readersGroup)
	if !ok {
		gid = noGroup
	}
	var l *lockedListener
	err := asGroup(gid, func(group bool) (err error) {
		l, err = listen(path, group)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	return l, nil
}

// lockedListener gives the lock back after the socket is gone.
type lockedListener struct {
	*net.UnixListener
	lock *os.File
}

func (l *lockedListener) Close() error {
	err := l.UnixListener.Close() // unlinks the socket first
	return errors.Join(err, ignoreClosed(l.lock.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// listen runs on a thread whose file creation mask may be set and, when group is
// set, with the readers' group as the group of new files.
func listen(path string, group bool) (*lockedListener, error) {
	folder, mask := fs.FileMode(0o700), 0o177
	if group {
		folder, mask = 0o750, 0o117
	}
	syscall.Umask(0o027)
	if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	if err := clearStale(path); err != nil {
		_ = lock.Close()
		return nil, err
	}
	syscall.Umask(mask)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &lockedListener{UnixListener: l, lock: lock}, nil
}

// takeLock locks the file beside the socket and writes our process number into
// it. The file stays for ever: to unlink it would let two starters hold two
// files of one name.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder := readHolder(f)
		_ = f.Close()
		return nil, fmt.Errorf("another netclassd (pid %s) holds it", holder)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// readHolder returns the process number in a lock. Whoever has just taken it may
// not have written yet.
func readHolder(f *os.File) string {
	for range 10 {
		b := make([]byte, 16)
		n, _ := f.ReadAt(b, 0)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
			return strconv.Itoa(pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return "unknown"
}

// clearStale removes the socket that a killed daemon left. We hold the lock, so
// a live one at the path is a stranger's; only ECONNREFUSED proves that nobody
// listens.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is something that is not a socket (%s); move it away", info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return errors.New("another program listens there")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("find out whether the old socket is in use: %w", err)
	}
	return os.Remove(path)
}

// noGroup says that there is no readers' group.
const noGroup = 1<<32 - 1

// asGroup runs f so that what it creates has its final mode and group at once:
// 0660 and the group when there is one that we may give, else the owner's alone.
// Mask and filesystem group belong to a thread of its own, which ends afterwards:
// nothing else in the process is affected.
func asGroup(gid uint32, f func(group bool) error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		// Without a file system context of its own the thread shares the whole
		// process's mask; where a sandbox forbids unshare, it is put back.
		shared := unix.Unshare(unix.CLONE_FS) != nil
		before := syscall.Umask(0o077)
		err := f(gid != noGroup && takeGroup(int(gid)))
		if shared {
			syscall.Umask(before)
		}
		done <- err
	}()
	return <-done
}

// takeGroup makes gid the group of files that this thread creates, and reports
// whether the kernel agreed (it needs CAP_SETGID for a group that is not ours).
func takeGroup(gid int) bool {
	if err := unix.Setfsgid(gid); err != nil {
		return false
	}
	now, err := unix.SetfsgidRetGid(-1)
	return err == nil && now == gid
}
