package bgp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
)

// socketFd is where the daemon leaves its end of the socket pair.
const socketFd = 3

// Main is the speaker process. It returns when the daemon has gone or has
// ordered it to stop; the process is to end then.
func Main() error {
	var st syscall.Stat_t
	if err := syscall.Fstat(socketFd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return errors.New("the speaker is started by netclassd, not by hand")
	}
	// What stops a container or a unit tells every process in it. The daemon
	// decides how we end: one that is still at it would start another of us, whose
	// sessions come up only to be cut off, and peers drop what they kept for us
	// when a restart is not finished (RFC 4724 §4.2). exec keeps this.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := dropPrivileges(); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}
	// Small is what matters: a few hundred sessions are little work, and more
	// threads than this only hold memory.
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 4))
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(192 << 20)

	syscall.CloseOnExec(socketFd)
	f := os.NewFile(socketFd, "daemon")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("open the daemon's socket: %w", err)
	}
	return serve(conn)
}

// serve carries out orders until the daemon closes its end. That end may come
// at any moment (kill -9): then everything stops at once, without a word to the
// peers, so that they keep our routes.
func serve(conn net.Conn) error {
	orders := make(chan *speakerv1.Order, 1)
	failed := make(chan error, 1)
	go func() {
		err := receive(conn, orders)
		if errors.Is(err, io.EOF) {
			os.Exit(0) // whatever the main loop is busy with
		}
		failed <- fmt.Errorf("read order: %w", err)
	}()
	s := newSpeaker(conn)
	return s.run(orders, failed)
}

// receive reads orders into a channel with one place until there are no more. A
// newer order takes the place of one that nobody has taken up yet: each says all,
// and the end of the daemon must be seen whatever the main loop is busy with.
func receive(from io.Reader, orders chan *speakerv1.Order) error {
	r := bufio.NewReader(from)
	for {
		o, err := speakerv1.ReadOrder(r)
		if err != nil {
			return err
		}
		select {
		case <-orders:
		default:
		}
		orders <- o
	}
}
