// Package kubeapi starts the real API server of Kubernetes for tests, with an
// etcd of its own, on ports of the loopback that are free. RBAC is on.
package kubeapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/test/need"
)

// Version is the release of Kubernetes that is tested against.
const Version = "v1.37.2"

// Server is an API server with its etcd. Its methods are for one goroutine, but
// for Request.
type Server struct {
	t      testing.TB
	folder string
	binary string
	port   int
	etcd   string // its URL
	tokens map[string]User

	client  *http.Client
	process *process
}

// User is who a static token stands for.
type User struct {
	Name   string
	Groups []string
}

// Admin is the token of one who may do anything.
const Admin = "admin-token"

// Start starts etcd and the API server, and ends them with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	etcd := need.Program(t, "etcd")
	binary := os.Getenv("NETCLASS_APISERVER")
	if binary == "" {
		binary = filepath.Join(top(t), ".cache", "kube-apiserver-"+Version, "kube-apiserver")
	}
	need.Built(t, binary, "kube-apiserver")
	s := &Server{t: t, folder: t.TempDir(), binary: binary, tokens: map[string]User{Admin: {"admin", []string{"system:masters"}}}}
	err := s.writeKeys()
	if err == nil {
		s.client, err = s.httpClient()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	client, peer := freePort(t), freePort(t)
	s.etcd = fmt.Sprintf("http://127.0.0.1:%d", client)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	p, err := start(s.file("etcd.log"), etcd,
		"--data-dir", inMemory(t), "--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	s.port = freePort(t)
	s.Up()
	t.Cleanup(s.Down)
	return s
}

// inMemory returns a folder in memory where there is one: etcd syncs each write,
// and a disk that other tests are busy with is slow.
func inMemory(t testing.TB) string {
	folder, err := os.MkdirTemp("/dev/shm", "netclass-etcd-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// Allow makes a token known from the next Up on, and Forbid unknown.
func (s *Server) Allow(token string, u User) { s.tokens[token] = u }

// Forbid makes a token unknown from the next Up on.
func (s *Server) Forbid(token string) { delete(s.tokens, token) }

// Up starts the API server and waits until it is ready.
func (s *Server) Up() {
	s.t.Helper()
	var tokens bytes.Buffer
	for token, u := range s.tokens {
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, u.Name, u.Name, strings.Join(u.Groups, ","))
	}
	if err := os.WriteFile(s.file("tokens.csv"), tokens.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	p, err := start(s.file("kube-apiserver.log"), s.binary,
		"--etcd-servers", s.etcd, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(s.port),
		"--tls-cert-file", s.file("tls.crt"), "--tls-private-key-file", s.file("tls.key"),
		"--authorization-mode", "RBAC", "--token-auth-file", s.file("tokens.csv"),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", s.file("sa.key"),
		"--service-account-signing-key-file", s.file("sa.key"), "--service-cluster-ip-range", "10.96.0.0/16",
		"--endpoint-reconciler-type", "none", "--shutdown-delay-duration", "0s")
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		if status, _, err := s.Request(Admin, "GET", "/readyz", "", nil); err == nil && status == 200 {
			return
		}
		select {
		case <-p.ended:
			s.t.Fatalf("kube-apiserver ended: %s", p.tail())
		case <-ctx.Done():
			s.t.Fatalf("kube-apiserver is not ready: %s", p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Down ends the API server as a crash would: its clients' connections end. Etcd
// goes on.
func (s *Server) Down() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
		s.client.CloseIdleConnections()
	}
}

// Compact has etcd forget all history, so that a watch cannot go on from where it
// was: the API server, once it is started anew, answers 410 Gone.
func (s *Server) Compact() {
	s.t.Helper()
	if err := s.compact(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) file(name string) string { return filepath.Join(s.folder, name) }

// URL is where the API server is.
func (s *Server) URL() string { return "https://" + s.address() }

func (s *Server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// process is a program that runs.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// start runs a program that dies with this process. The kernel ties that to the
// thread which starts it, so that one is kept for it.
func start(log, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// tail returns the end of what the program said.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

// top returns the project's top folder.
func top(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; folder != "/"; folder = filepath.Dir(folder) {
		if text, err := os.ReadFile(filepath.Join(folder, "go.mod")); err == nil && bytes.HasPrefix(text, []byte("module netclass.dev\n")) {
			return folder
		}
	}
	t.Fatal("the project's top folder is not above the test's")
	return ""
}
