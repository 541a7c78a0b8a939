package strictyaml

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long whoever writes a file or a pipe may keep us waiting.
const patience = 5 * time.Second

// ReadFile reads a file, but of one that is larger than the limits allow only
// so much that Parse refuses it. One that is being written is waited for: its
// first half may be valid by itself. A pipe that nobody writes to is empty, and
// one whose writer is silent an error; neither keeps the reader for ever.
func ReadFile(path string, limits Limits) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	until := time.Now().Add(patience)
	_ = f.SetReadDeadline(until) // a regular file has none, and needs none
	for beingWritten(f) && time.Now().Before(until) {
		time.Sleep(patience / 100)
	}
	return io.ReadAll(io.LimitReader(f, int64(limits.Bytes)+1))
}

// beingWritten reports whether somebody has the file open for writing: only then
// does the kernel refuse a read lease with EAGAIN (fcntl(2)). Where there are no
// leases the answer is no.
func beingWritten(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		if _, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	return errors.Is(err, unix.EAGAIN)
}
