package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"netclass.dev/client/cli"
	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
	"netclass.dev/test/need"
)

// childEnv makes the test binary be netclassctl.
const childEnv = "NETCLASS_TEST_NETCLASSCTL"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(cli.Main(os.Args[1:], cli.System()))
	}
	os.Exit(m.Run())
}

// hung is a socket whose owner accepts and says nothing.
func hung(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "hung.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
		}
	}()
	return socket
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	socket := hung(t)
	nowhere := filepath.Join(t.TempDir(), "nobody.sock")
	stale := filepath.Join(t.TempDir(), "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"hung daemon":       {"--timeout 200ms --socket " + socket + " status", 5, "netclassctl: no answer from netclassd at " + socket + " within 200ms\n"},
		"hung daemon, list": {"--timeout 200ms --socket " + socket + " peers", 5, "netclassctl: no answer from netclassd at " + socket + " within 200ms\n"},
		"hung watch":        {"--timeout 200ms --no-headers --socket " + socket + " watch", 5, "netclassctl: no answer from netclassd at " + socket + " within 200ms\n"},
		"no socket":         {"--socket " + nowhere + " table pods", 1, "netclassctl: cannot reach netclassd at " + nowhere + ": no such file or directory (is it running? --socket)\n"},
		"no socket, watch":  {"--no-headers --socket " + nowhere + " watch", 1, "netclassctl: cannot reach netclassd at " + nowhere + ": no such file or directory (is it running? --socket)\n"},
		"stale socket":      {"--socket " + stale + " reload", 1, "netclassctl: cannot reach netclassd at " + stale + ": connection refused (is it running? --socket)\n"},
	} {
		out, errs, code := run(0, strings.Fields(c.args)...)
		if code != c.code || errs != c.want || out != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want %d, %q", name, code, out, errs, c.code, c.want)
		}
	}
	out, _, code := run(0, "--socket", nowhere, "version")
	if code != 0 || !strings.Contains(out, "netclassctl  ") || !strings.Contains(out, "cannot reach netclassd") {
		t.Errorf("version without a daemon: exit %d, %q", code, out)
	}
	if out, _, code := run(0); code != 0 || !strings.Contains(out, "netclassctl") {
		t.Errorf("no arguments: exit %d, %q", code, out)
	}
	if out, _, code := run(0, "completion", "bash"); code != 0 || !strings.Contains(out, "__netclassctl") {
		t.Errorf("completion: exit %d, %d bytes", code, len(out))
	}
}

// Who may not use the socket is told which group may.
func TestPermissionNamesTheGroup(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("", "netclass-cli-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "run", "n.sock")
	l, err := server.Listen(socket, "adm")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- server.New(server.Config{Source: servertest.NewSource(servertest.Healthy()), Readers: "adm", Admins: "staff"}).Serve(ctx, l)
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	const adm = 4 // in Debian's and everybody's /etc/group
	for name, c := range map[string]struct {
		groups []uint32
		args   string
		want   string
	}{
		"stranger":            {nil, "status", "permission denied (be root or a member of the group \"adm\")"},
		"reader who changes":  {[]uint32{adm}, "reload", "to change netclassd you must be root or a member of the group \"staff\"; you are uid 65534"},
		"reader who validate": {[]uint32{adm}, "reload --validate-only", "a member of the group \"staff\""},
	} {
		child := exec.Command("/proc/self/exe", append([]string{"--socket", socket}, strings.Fields(c.args)...)...)
		child.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
		child.Dir = "/"
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: c.groups}}
		var stderr bytes.Buffer
		child.Stderr = &stderr
		_ = child.Run()
		if code := child.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, %q", name, code, stderr.String())
		}
	}
}

// The tab key completes names from the daemon, and does not wait for a hung one.
func TestCompletion(t *testing.T) {
	t.Parallel()
	socket := servertest.Start(t, servertest.NewSource(servertest.Healthy()))
	for command, want := range map[string]string{
		"classes": "ceph-replication\npod-pod\nworld-pod\nnode-node\nworld-node\n",
		"table":   "pods\nmain\n",
		"peers":   "k8s-2\nk8s-3\nudm\n",
		"nodes":   "k8s-1\nk8s-2\nk8s-3\n",
		"drain":   "k8s-1\nk8s-2\nk8s-3\n",
		"undrain": "k8s-1\nk8s-2\nk8s-3\n",
	} {
		out, _, code := run(0, "__complete", "--socket", socket, command, "")
		if code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("%s: exit %d, %q", command, code, out)
		}
		if out, _, _ := run(0, "__complete", "--socket", socket, command, "x", ""); out != ":4\n" {
			t.Errorf("a second name for %s: %q", command, out)
		}
	}
	for flag, want := range map[string]string{"--class": "ceph-replication\npod-pod\n", "--holder": "k8s-1\nk8s-2\nk8s-3\n"} {
		if out, _, _ := run(0, "__complete", "--socket", socket, "drain", "k8s-1", flag, ""); !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q", flag, out)
		}
	}
	if out, _, _ := run(0, "__complete", "--socket", socket, "explain", "world", "--in", ""); !strings.HasPrefix(out, "ceph-san\npod0\ningress0\n") {
		t.Errorf("--in: %q", out)
	}
	for line, want := range map[string]string{"drain --reason": ":4\n", "rules": ":4\n", "--socket": ":0\n"} {
		if out, _, _ := run(0, append(append([]string{"__complete"}, strings.Fields(line)...), "")...); out != want {
			t.Errorf("%s: %q, want %q", line, out, want)
		}
	}
	if out, _, _ := run(0, "__complete", "-o", ""); !strings.HasPrefix(out, "table\nwide\njson\nyaml\n") {
		t.Errorf("-o: %q", out)
	}
	begin := time.Now()
	out, _, code := run(0, "__complete", "--socket", hung(t), "classes", "")
	if took := time.Since(begin); code != 0 || out != ":4\n" || took > 3*time.Second {
		t.Errorf("hung: exit %d, %q after %v", code, out, took)
	}
}

func TestSocketFromEnvironment(t *testing.T) {
	t.Parallel()
	socket := servertest.Start(t, servertest.NewSource(servertest.Healthy()))
	var out bytes.Buffer
	code := cli.Main([]string{"nodes"}, cli.Env{Out: &out, Err: io.Discard, Now: time.Now, Getenv: func(name string) string {
		return map[string]string{"NETCLASSD_SOCKET": socket}[name]
	}})
	if code != 0 || !strings.Contains(out.String(), "k8s-3") {
		t.Errorf("exit %d: %s", code, out.String())
	}
}

// A watch as a process of its own: snapshot, change, interrupt, and the daemon's
// end.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"interrupt", "stop"} {
		source := servertest.NewSource(servertest.Healthy())
		socket := filepath.Join(t.TempDir(), "n.sock")
		l, err := server.Listen(socket, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		served := make(chan error, 1)
		go func() { served <- server.New(server.Config{Source: source}).Serve(ctx, l) }()

		child := exec.Command("/proc/self/exe", "--socket", socket, "watch", "-o", "json", "--timeout", "3s")
		child.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
		var stderr bytes.Buffer
		child.Stderr = &stderr
		pipe, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(pipe)
		until := func(part string) string {
			t.Helper()
			for lines.Scan() {
				if strings.Contains(lines.Text(), part) {
					return lines.Text()
				}
			}
			t.Fatalf("no line has %q; stderr %q", part, stderr.String())
			return ""
		}
		until(`"synced":{}`)
		time.Sleep(3200 * time.Millisecond) // the timeout does not end it
		source.Publish(func(st *routing.State) {
			st.Conditions = []routing.Condition{{Object: "kernel", Reason: "ApplyFailed", Message: "m", Since: servertest.Now}}
		})
		want := `{"sequence":"5213","time":"2026-03-01T12:00:00Z","upsert":{"name":"conditions/kernel/ApplyFailed","condition":{"object":"kernel","reason":"ApplyFailed","message":"m","since":"2026-03-01T12:00:00Z"}}}`
		if got := until("upsert"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		code, message := 0, ""
		if end == "interrupt" {
			_ = child.Process.Signal(os.Interrupt)
		} else {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
			code, message = 1, "netclassctl: netclassd is stopping\n"
		}
		_ = child.Wait()
		if got := child.ProcessState.ExitCode(); got != code || stderr.String() != message {
			t.Errorf("%s: exit %d, %q", end, got, stderr.String())
		}
		cancel()
	}
}

// A help tells the timeout that its command has.
func TestTimeoutInHelp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cmd  string
		want string
	}{{"status", "(default 5s)"}, {"drain", "how long to follow it (default: to its end)"}, {"undrain", "how long to follow it (default: to its end)"}} {
		out, _, _ := run(0, c.cmd, "--help")
		if strings.Count(out, "--timeout DURATION") != 1 || !strings.Contains(out, c.want) || c.cmd != "status" && strings.Contains(out, "default 5s") {
			t.Errorf("%s:\n%s", c.cmd, out)
		}
	}
}

// TestHelpFits: no line of a help is wider than a terminal.
func TestHelpFits(t *testing.T) {
	for _, cmd := range []string{"", "status", "class", "tables", "rule", "peer", "node", "plan", "watch", "explain", "verify", "drain", "undrain", "reload", "version", "health", "completion"} {
		args := []string{"--help"}
		if cmd != "" {
			args = []string{cmd, "--help"}
		}
		out, _, code := run(0, args...)
		if code != 0 {
			t.Errorf("%s: exit code %d", cmd, code)
		}
		for line := range strings.Lines(out) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s: %s", cmd, line)
			}
		}
	}
	if out, _, _ := run(0, "completion", "--help"); strings.Contains(strings.ToLower(out), "powershell") {
		t.Errorf("a shell that Linux does not have:\n%s", out)
	}
	if out, _, code := run(0, "--version"); code != 0 || !strings.HasPrefix(out, "netclassctl version ") {
		t.Errorf("--version: %d, %s", code, out)
	}
}
