package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
	"netclass.dev/test/need"
)

// childEnv makes the test binary play another process.
const childEnv = "NETCLASS_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "listen":
		if _, err := server.Listen(os.Getenv("NETCLASS_TEST_SOCKET"), ""); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("listening")
		time.Sleep(time.Minute)
	case "call":
		if err := json.NewEncoder(os.Stdout).Encode(callAll(os.Getenv("NETCLASS_TEST_SOCKET"))); err != nil {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// answer is what a call got.
type answer struct {
	Code    codes.Code
	Message string
}

func callAll(socket string) map[string]answer {
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return net.Dial("unix", socket) }))
	if err != nil {
		return nil
	}
	a := pb.NewNetClassServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	result := map[string]answer{}
	add := func(name string, err error) { result[name] = answer{status.Code(err), status.Convert(err).Message()} }
	_, err = a.GetStatus(ctx, &pb.GetStatusRequest{})
	add("status", err)
	stream, err := a.Watch(ctx, &pb.WatchRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	add("watch", err)
	_, err = a.Reload(ctx, &pb.ReloadRequest{ValidateOnly: true})
	add("reload", err)
	_, err = drainAll(ctx, a, &pb.DrainNodeRequest{ValidateOnly: true})
	add("drain", err)
	undrain, err := a.UndrainNode(ctx, &pb.UndrainNodeRequest{})
	if err == nil {
		_, err = undrain.Recv()
	}
	add("undrain", err)
	return result
}

// Who may do what: by uid, primary group and supplementary group. The socket is
// opened to everybody here, so that the server's own word is what is tested.
func TestCredentials(t *testing.T) {
	need.Root(t)
	readers, admins := groupID(t, "adm"), groupID(t, "staff")
	dir, err := os.MkdirTemp("", "netclass-credentials-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	socket := filepath.Join(dir, "n.sock")
	l, err := server.Listen(socket, "adm")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	source := servertest.NewSource(servertest.Healthy())
	s := server.New(server.Config{
		Source: source, Drains: source, Readers: "adm", Admins: "staff",
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	go func() { served <- s.Serve(ctx, l) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	const nobody = 65534
	call := func(credential syscall.Credential) map[string]answer {
		t.Helper()
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), childEnv+"=call", "GORACE=atexit_sleep_ms=0", "NETCLASS_TEST_SOCKET="+socket)
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &credential}
		child.Dir = "/"
		out, err := child.Output()
		if err != nil {
			t.Fatal(err)
		}
		var result map[string]answer
		if err := json.Unmarshal(out, &result); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return result
	}

	// By the socket's mode a stranger does not even come in.
	if got := call(syscall.Credential{Uid: nobody, Gid: nobody}); got["status"].Code != codes.Unavailable {
		t.Errorf("a stranger at the closed socket: %v", got)
	}
	if got := call(syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{readers}}); got["status"].Code != codes.OK {
		t.Errorf("a reader at the closed socket: %v", got)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	many := make([]uint32, 300) // more than the first buffer for SO_PEERGROUPS
	for i := range many {
		many[i] = uint32(100000 + i)
	}
	for name, c := range map[string]struct {
		credential   syscall.Credential
		read, change codes.Code
	}{
		"root":             {syscall.Credential{}, codes.OK, codes.OK},
		"stranger":         {syscall.Credential{Uid: nobody, Gid: nobody}, codes.PermissionDenied, codes.PermissionDenied},
		"group root only":  {syscall.Credential{Uid: nobody, Gid: 0}, codes.PermissionDenied, codes.PermissionDenied},
		"reader":           {syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{readers}}, codes.OK, codes.PermissionDenied},
		"reader, primary":  {syscall.Credential{Uid: nobody, Gid: readers}, codes.OK, codes.PermissionDenied},
		"admin":            {syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{admins}}, codes.OK, codes.OK},
		"many groups":      {syscall.Credential{Uid: nobody, Gid: nobody, Groups: many}, codes.PermissionDenied, codes.PermissionDenied},
		"reader of many":   {syscall.Credential{Uid: nobody, Gid: nobody, Groups: append([]uint32{readers}, many...)}, codes.OK, codes.PermissionDenied},
		"root's namesake ": {syscall.Credential{Uid: 1, Gid: 1}, codes.PermissionDenied, codes.PermissionDenied},
	} {
		got := call(c.credential)
		if got["status"].Code != c.read || got["watch"].Code != c.read || got["reload"].Code != c.change || got["drain"].Code != c.change || got["undrain"].Code != c.change {
			t.Errorf("%s: %v", name, got)
		}
		if c.read == codes.PermissionDenied && !strings.Contains(got["status"].Message, `a member of the group "adm"`) {
			t.Errorf("%s: %q does not name the group", name, got["status"].Message)
		}
		if c.change == codes.PermissionDenied && !strings.Contains(got["reload"].Message, `a member of the group "staff"`) {
			t.Errorf("%s: %q does not name the group", name, got["reload"].Message)
		}
	}
	for _, want := range []string{
		"level=INFO msg=call method=/netclass.v1.NetClassService/Reload caller.uid=0 caller.gid=0 caller.pid=",
		"level=INFO msg=call method=/netclass.v1.NetClassService/GetStatus caller.uid=65534 caller.gid=65534 caller.pid=",
		"level=DEBUG msg=call method=/netclass.v1.NetClassService/GetStatus caller.uid=0",
		"code=PermissionDenied",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q", want)
		}
	}
}

// lockedBuffer is a log for many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// One connection too many is closed at once and counted down again later.
func TestConnectionsAreBounded(t *testing.T) {
	socket := servertest.Start(t, servertest.NewSource(servertest.Idle()))
	var open []net.Conn
	for range 512 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	a := api(t, socket)
	if _, err := a.GetStatus(t.Context(), &pb.GetStatusRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("beyond the limit: %v", err)
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := api(t, socket).GetStatus(t.Context(), &pb.GetStatusRequest{})
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
