package systemd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// kubeconfigLine is how the documents have a kubeconfig installed.
var kubeconfigLine = regexp.MustCompile(`(?m)^ *(install .* /etc/netclassd/kubeconfig) <<`)

// kubeconfig: what is installed as the documents say can be read by the daemon, and by
// nobody who is only to look.
func kubeconfig(m *machine) {
	text, err := os.ReadFile("../../packaging/kubernetes/README.md")
	if err != nil {
		m.t.Fatal(err)
	}
	line := kubeconfigLine.FindSubmatch(text)
	if line == nil {
		m.t.Fatal("the document installs no kubeconfig")
	}
	if _, err := m.tryInput("a token", "sh", "-ec", string(line[1])); err != nil {
		m.t.Fatal(err)
	}
	for user, may := range map[string]bool{"netclassd": true, "alice": false, "bob": false, "mallory": false} {
		if out, err := m.try("runuser", "--user", user, "--", "cat", "/etc/netclassd/kubeconfig"); (err == nil) != may {
			m.t.Errorf("%s: %v: %s", user, err, out)
		}
	}
	m.run("rm", "/etc/netclassd/kubeconfig")
}

// access: readers may look, administrators may change, strangers get nothing.
func access(m *machine) {
	m.run("useradd", "--groups", "netclassd", "alice")
	m.run("useradd", "--groups", "netclassd,netclassd-admin", "bob")
	m.run("useradd", "mallory")
	for _, test := range []struct {
		user, command string
		want          string // of what it says when it may not; empty: it may
	}{
		{"alice", "rules", ""},
		{"alice", "reload", `root or a member of the group "netclassd-admin"`},
		{"bob", "rules", ""},
		{"bob", "reload", ""},
		{"mallory", "rules", "permission denied"},
		{"mallory", "reload", "permission denied"},
	} {
		out, err := m.try("runuser", "--user", test.user, "--", "netclassctl", test.command)
		if (err == nil) != (test.want == "") || !strings.Contains(out, test.want) {
			m.t.Errorf("%s: netclassctl %s: %v: %s", test.user, test.command, err, out)
		}
	}
}

// journal: each attribute is a field, and the message has them for people.
func journal(m *machine) {
	uid := m.run("id", "--user", "netclassd")
	started := m.entries("NETCLASS_NODE=k8s-1")
	if len(started) == 0 {
		m.t.Fatal("no entry has the node's name")
	}
	for field, want := range map[string]string{
		"MESSAGE": "started version=1.0.0 node=k8s-1 config=/etc/netclassd/config.yaml", "PRIORITY": "6", "NETCLASS_VERSION": "1.0.0",
		"NETCLASS_CONFIG": configPath, "SYSLOG_IDENTIFIER": "netclassd", "_TRANSPORT": "journal", "_UID": uid,
	} {
		if got := started[0][field]; got != want {
			m.t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	refused := m.entries("NETCLASS_CODE=PermissionDenied", "NETCLASS_CALLER_UID="+m.run("id", "--user", "alice"))
	if !slices.ContainsFunc(refused, func(e map[string]any) bool { return e["NETCLASS_METHOD"] == "/netclass.v1.NetClassService/Reload" }) {
		m.t.Errorf("alice's try is not to be found: %v", refused)
	}
	if strings.Contains(m.log("--output=export"), meshPassword) {
		m.t.Error("the journal has the password")
	}
}

// journalStuck: a journald that hangs keeps nobody from what has to be done.
func journalStuck(m *machine) {
	m.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", "systemd-journald")
	for range 30 { // far more lines than its socket holds
		m.run("netclassctl", "reload")
	}
	m.run("ip", "rule", "delete", "priority", "1001")
	begun := time.Now()
	m.eventually("the rule is back", func() error {
		out, err := m.try("ip", "rule", "show", "priority", "1001")
		if err == nil && out == "" {
			err = errors.New("it is not")
		}
		return err
	})
	if took := time.Since(begun); took > 2*time.Second {
		m.t.Errorf("it took %v to put a rule back", took)
	}
	m.run("systemctl", "kill", "--kill-who=main", "--signal=CONT", "systemd-journald")
	m.eventually("all of it is in the journal", func() error {
		if n := len(m.entries("NETCLASS_METHOD=/netclass.v1.NetClassService/Reload")); n < 30 {
			return fmt.Errorf("%d reloads are", n)
		}
		return nil
	})
}

// entries returns the service's entries in the journal that have fields.
func (m *machine) entries(fields ...string) (found []map[string]any) {
	m.t.Helper()
	out := m.log(append([]string{"--output=json"}, fields...)...)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "-- No entries") {
			continue
		}
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			m.t.Fatalf("journalctl: %v: %s", err, line)
		}
		found = append(found, entry)
	}
	return found
}
