package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// caller is who is at the other end of a connection, as the kernel says: the
// process that called connect, with the groups it had then.
type caller struct {
	uid, gid uint32
	pid      int32
	groups   []uint32 // supplementary, from SO_PEERGROUPS: SO_PEERCRED has none
}

func (c caller) root() bool { return c.uid == 0 }

func (c caller) in(gid uint32) bool { return c.gid == gid || slices.Contains(c.groups, gid) }

func (c caller) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("uid", c.uid), slog.Any("gid", c.gid), slog.Any("pid", c.pid))
}

// callerOf asks the kernel for the peer of a unix connection.
func callerOf(conn net.Conn) (caller, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return caller{}, fmt.Errorf("read peer credentials: not a unix connection: %T", conn)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return caller{}, fmt.Errorf("read peer credentials: %w", err)
	}
	var c caller
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		c = caller{uid: cred.Uid, gid: cred.Gid, pid: cred.Pid}
		c.groups, failed = peerGroups(fd)
	})
	if err = errors.Join(err, failed); err != nil {
		return caller{}, fmt.Errorf("read peer credentials: %w", err)
	}
	return c, nil
}

// peerGroups reads SO_PEERGROUPS (Linux 4.13): an array of gid_t. With a buffer
// too small the kernel answers ERANGE and the size it needs.
func peerGroups(fd uintptr) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == unix.ERANGE && int(size) > len(groups)*4:
			groups = make([]uint32, (size+3)/4)
		case errno == unix.ENOPROTOOPT:
			return nil, nil
		case errno != 0:
			return nil, errno
		default:
			return groups[:size/4], nil
		}
	}
}

// identified is a connection whose caller is known.
type identified struct {
	net.Conn
	caller caller
	closed sync.Once
	done   func()
}

// Close gives the connection's place back.
func (c *identified) Close() error {
	c.closed.Do(c.done)
	return c.Conn.Close()
}

// limitedListener identifies each caller and keeps the number of connections
// bounded. One too many is closed, not left waiting: a wait looks like a daemon
// that hangs. The last places are root's, so that readers cannot lock it out.
type limitedListener struct {
	net.Listener
	log   *slog.Logger
	limit int32
	open  atomic.Int32
	conns sync.Map // *identified: the open ones
}

// cutOff closes every connection. gRPC closes only those that have said hello;
// one that never says anything would hold up its end for the handshake's time.
func (l *limitedListener) cutOff() {
	l.conns.Range(func(conn, _ any) bool {
		_ = conn.(*identified).Close()
		return true
	})
}

// limitListener bounds the connections of l: at most maxConnections, and half of
// the files that the process may open. The rest belongs to the daemon, which
// opens some for every look at the kernel.
func limitListener(l net.Listener, log *slog.Logger) *limitedListener {
	limit := int32(maxConnections)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur/2 < maxConnections {
		limit = int32(files.Cur / 2)
	}
	return &limitedListener{Listener: l, log: log, limit: limit}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who, err := callerOf(conn)
		if err != nil {
			l.log.Warn("connection refused", slog.Any("error", err))
			_ = conn.Close()
			continue
		}
		limit := l.limit
		if !who.root() {
			limit -= min(reservedForRoot, limit/4)
		}
		if l.open.Add(1) > limit {
			l.open.Add(-1)
			l.log.Debug("connection refused: too many are open", slog.Any("caller", who), slog.Any("limit", limit))
			_ = conn.Close()
			continue
		}
		c := &identified{Conn: conn, caller: who}
		c.done = func() {
			l.conns.Delete(c)
			l.open.Add(-1)
		}
		l.conns.Store(c, nil)
		return c, nil
	}
}

// peerCredentials is the transport security of a unix socket: the kernel vouches
// for the caller. It accepts every :authority, as clients of other languages
// send different ones over unix sockets.
type peerCredentials struct{}

func (peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*identified)
	if !ok {
		return nil, nil, errors.New("read peer credentials: the connection was not accepted by this server")
	}
	return conn, authInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, caller: c.caller}, nil
}

func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("peer credentials are for servers")
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "peercred"}
}

func (p peerCredentials) Clone() credentials.TransportCredentials { return p }

func (peerCredentials) OverrideServerName(string) error { return nil }

// authInfo carries the caller to the handlers.
type authInfo struct {
	credentials.CommonAuthInfo
	caller caller
}

func (authInfo) AuthType() string { return "peercred" }

// callerFrom returns who makes the call.
func callerFrom(ctx context.Context) (caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return caller{}, false
	}
	info, ok := p.AuthInfo.(authInfo)
	return info.caller, ok
}
