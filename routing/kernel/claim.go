package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// claimName is an abstract unix socket: the kernel keeps such names apart by
// network namespace, whatever files the processes see, and takes one back in the
// moment that its process ends.
const claimName = "@netclassd"

// claimWait is how long an ending daemon may still have the claim: it ends within
// two seconds of being told to.
const (
	claimWait  = 2 * time.Second
	claimRetry = 20 * time.Millisecond
)

// Claim makes this process the one netclassd of the network namespace that it is
// in, until what it returns is closed or the process ends. Two would undo each
// other's changes for ever. It waits a moment for one that is ending; the error
// names one that stays.
//
// Anybody may take the name. A process that could change no route is no netclassd
// and keeps none from starting: it is logged, and there is no claim.
func Claim(ctx context.Context, log *slog.Logger) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	for {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: claimName, Net: "unix"})
		if err == nil {
			go answer(l)
			return l, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("claim the network namespace: %w", err)
		}
		pid, known := claimant()
		if known && pid > 0 && !mayRoute(pid) {
			log.Warn("network namespace not claimed: a process that is no netclassd has the name", "socket", claimName, "pid", pid)
			return io.NopCloser(nil), nil
		}
		select {
		case <-time.After(claimRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("claim the network namespace: another netclassd (%s) holds it", whose(pid))
		}
	}
}

// answer takes in whoever asks who holds the claim, so that the next one can ask
// as well. It ends with the listener.
func answer(l *net.UnixListener) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			_ = conn.Close()
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptors are left
			time.Sleep(time.Second)
		}
	}
}

// claimant returns the process that has the name; 0 is one that cannot be seen
// from here, as in another container.
func claimant() (pid int, known bool) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: claimName}); err != nil {
		return 0, false
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, false
	}
	return int(cred.Pid), true
}

// mayRoute reports whether a process may change routes, as far as that can be
// seen: who is not known not to may.
func mayRoute(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return true
	}
	_, rest, found := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return !found || err != nil || effective&(1<<unix.CAP_NET_ADMIN) != 0
}

func whose(pid int) string {
	if pid == 0 {
		return "whose process cannot be seen from here"
	}
	return "pid " + strconv.Itoa(pid)
}

// MayRoute is the error of a process that may not change routes and rules.
func MayRoute() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // of which the first holds the lower 32
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if data[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return errors.New("the capability CAP_NET_ADMIN is missing: run netclassd as root, or by its systemd unit or pod, which give it that")
	}
	return nil
}
