package lab_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

const childEnv = "NETCLASS_LAB_TEST_CHILD"

// TestMain lets the test binary be the process that is killed with its lab.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		fmt.Println(labToBeKilled())
		select {}
	}
	os.Exit(m.Run())
}

// labToBeKilled makes a lab with a program in it and names the program's
// process and its namespace.
func labToBeKilled() (string, error) {
	ctx, cancel := timeout(10 * time.Second)
	defer cancel()
	l, err := lab.New(ctx, lab.Options{Nodes: 2})
	if err != nil {
		return "", err
	}
	p, err := l.Node(1).Start(lab.Command{Path: "/bin/sleep", Args: []string{"1000"}})
	if err != nil {
		return "", err
	}
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID()))
	return fmt.Sprintf("%d %s %s", p.PID(), ns, l.Dir()), err
}

// TestKilled kills a process with SIGKILL and looks for what is left of its lab.
func TestKilled(t *testing.T) {
	need.Root(t)
	need.Program(t, "nft")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	var ns, dir string
	if _, err := fmt.Sscan(line, &pid, &ns, &dir); err != nil {
		t.Fatalf("the child says %q: %v", line, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended with %v", err)
	}
	ctx, cancel := timeout(3 * time.Second)
	defer cancel()
	err = lab.Eventually(ctx, func() error {
		if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return holder(map[string]bool{ns: true})
	})
	if err != nil {
		t.Error(err)
	}
}

// zombie reports whether a process has ended and only waits to be reaped: it was
// handed to a process 1 that may be slow at that.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}
