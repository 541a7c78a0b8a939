package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/test/need"
)

// TestReleaseRefused: a release is of a tag, of all of it and of nothing else.
func TestReleaseRefused(t *testing.T) {
	need.Program(t, "bash")
	need.Program(t, "git")
	tree := t.TempDir()
	run := func(program string, args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir = tree
		// A release that is not refused ends at its first use of go.
		cmd.Env = append(os.Environ(), "GO=false", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := run("git", args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string) {
		t.Helper()
		out, err := run("bash", "packaging/release/build.sh", "dist")
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, want %q:\n%s", err, want, out)
		}
	}
	for _, name := range []string{"packaging/release/build.sh", "packaging/release/pinned.sh", "packaging/deb-rpm/build.sh", ".gitignore"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		put(name, string(text))
	}
	put("CHANGELOG.md", "# Changes\n\n## 1.2.3 (2026-01-01)\n")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "all")
	refused("which is no tag")
	git("tag", "v1.2.4")
	refused(`no section "## 1.2.4`)
	git("tag", "-d", "v1.2.4")
	git("tag", "v1.2.3")
	if out, err := run("bash", "packaging/release/build.sh", "dist"); err == nil || strings.Contains(out, "release:") {
		t.Errorf("a tag of a clean tree: %v, want to come to go\n%s", err, out)
	}
	put("cmd/netclassd/more.go", "package main\n")
	refused("not the tag's")
	put("CHANGELOG.md", "# Changes\n")
	refused("v1.2.3-dirty")
}
