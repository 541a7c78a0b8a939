// Package need says what a test needs of the machine. A need that is not met
// skips the test with its reason, or fails it where NETCLASS_REQUIRE=all says
// that the machine must have everything.
package need

import (
	"os"
	"os/exec"
	"os/user"
	"testing"
)

// lacking is the one list of kernel features whose absence never fails a run:
// the kernels that tests run on are often built without them.
var lacking = map[string]bool{
	"8021q":  true,
	"dummy":  true,
	"vrf":    true,
	"ipip":   true,
	"tcp-ao": true,
}

// Root skips unless the test runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		unmet(t, "needs root for network namespaces")
	}
}

// Program skips unless the program is installed, and returns its path. Debian
// keeps some daemons out of PATH; they are looked for there too.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, try := range []string{name, "/usr/sbin/" + name, "/sbin/" + name, "/usr/lib/frr/" + name} {
		if path, err := exec.LookPath(try); err == nil {
			return path
		}
	}
	unmet(t, "needs the program "+name)
	return ""
}

// Group skips unless the group exists.
func Group(t testing.TB, name string) *user.Group {
	t.Helper()
	g, err := user.LookupGroup(name)
	if err != nil {
		unmet(t, "needs the group "+name+": "+err.Error())
	}
	return g
}

// Feature skips when err, the kernel's answer to the first use of a feature,
// says that the kernel lacks it.
func Feature(t testing.TB, feature string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if lacking[feature] {
		t.Skipf("this kernel has no %s: %v", feature, err)
	}
	unmet(t, "needs the kernel feature "+feature+": "+err.Error())
}

func unmet(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("NETCLASS_REQUIRE") == "all" {
		t.Fatal(reason + " (NETCLASS_REQUIRE=all)")
	}
	t.Skip(reason)
}

// Built skips unless the file is there, which a target of make builds.
func Built(t testing.TB, path, target string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		unmet(t, "needs "+path+": make "+target)
	}
}
