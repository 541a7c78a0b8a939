package systemd

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"netclass.dev/test/need"
)

// TestReleased: what `make release` makes of a tag, for this machine's architecture:
// everything, with the tag's version in it, its checksum, and bills of materials that
// name what is in the programs.
func TestReleased(t *testing.T) {
	for _, program := range []string{"bash", "git", "tar", "dpkg-deb"} {
		need.Program(t, program)
	}
	tree := tagged(t, "v9.8.7")
	out := filepath.Join(t.TempDir(), "dist")
	build := exec.Command("bash", "packaging/release/build.sh", out)
	build.Dir, build.Env = tree, append(os.Environ(), "ARCHITECTURES="+runtime.GOARCH)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, text)
	}
	suffix := "-v9.8.7-linux-" + runtime.GOARCH
	want := []string{
		"CHANGELOG.md", "LICENSES", "SHA256SUMS", "images/netclassd-talos.oci.tar", "images/netclassd.oci.tar",
		fmt.Sprintf("netclass-9.8.7-1.%s.rpm", rpmArch()), fmt.Sprintf("netclass_9.8.7_%s.deb", runtime.GOARCH),
		"netclassctl" + suffix, "netclassctl" + suffix + ".cdx.json", "netclassd" + suffix, "netclassd" + suffix + ".cdx.json",
	}
	slices.Sort(want)
	var got []string
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, out+"/"))
		}
		return err
	})
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Fatalf("a release has\n%s\nwant\n%s\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), err)
	}
	checksums(t, out, got)
	version, err := exec.Command("dpkg-deb", "--field", filepath.Join(out, fmt.Sprintf("netclass_9.8.7_%s.deb", runtime.GOARCH)), "Version").Output()
	if err != nil || string(version) != "9.8.7\n" {
		t.Errorf("the package's version is %q, %v", version, err)
	}
	for _, program := range []string{"netclassd", "netclassctl"} {
		path := filepath.Join(out, program+suffix)
		text, _ := exec.Command(path, "version").CombinedOutput() // netclassctl finds no daemon
		if !bytes.Contains(text, []byte("9.8.7")) {
			t.Errorf("%s version: %s", program, text)
		}
		bill(t, path)
	}
}

// tagged makes a repository of what is under version control here, and of nothing
// else, and gives its one commit a tag.
func tagged(t *testing.T, tag string) string {
	t.Helper()
	tree := t.TempDir()
	copied := exec.Command("bash", "-ec", `git ls-files -z | tar --null --files-from=- --create | tar --extract --directory="$1"
		cd "$1"
		printf '# Changes\n\n## %s (2026-01-01)\n' "${2#v}" >CHANGELOG.md
		git init --quiet
		git add --all
		git commit --quiet --message=all
		git tag "$2"`, "bash", tree, tag)
	copied.Dir = "../.."
	copied.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org")
	if text, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("copy the repository: %v\n%s", err, text)
	}
	return tree
}

// checksums: of every file there is the sum, and of nothing else.
func checksums(t *testing.T, folder string, files []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	for _, name := range files {
		if name == "SHA256SUMS" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); sums[name] != hex.EncodeToString(sum[:]) {
			t.Errorf("the checksum of %s is %q", name, sums[name])
		}
	}
	if len(sums) != len(files)-1 {
		t.Errorf("%d checksums of %d files", len(sums), len(files)-1)
	}
}

// bill: a program's bill of materials names the release, and every module that is in
// the program, with its version.
func bill(t *testing.T, program string) {
	t.Helper()
	type component struct{ Name, Version string }
	var doc struct {
		BOMFormat  string
		Metadata   struct{ Component component }
		Components []component
	}
	text, err := os.ReadFile(program + ".cdx.json")
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := doc.Metadata.Component, (component{"netclass.dev", "v9.8.7"}); doc.BOMFormat != "CycloneDX" || got != want {
		t.Errorf("%s: %s of %+v, want of %+v", program, doc.BOMFormat, got, want)
	}
	built, err := buildinfo.ReadFile(program)
	if err != nil || len(built.Deps) < 5 {
		t.Fatalf("%s: %d modules, %v", program, len(built.Deps), err)
	}
	if !slices.ContainsFunc(doc.Components, func(c component) bool {
		return c.Name == "std" && strings.TrimPrefix(c.Version, "go") == strings.TrimPrefix(built.GoVersion, "go")
	}) {
		t.Errorf("%s: the bill has no standard library of %s", program, built.GoVersion)
	}
	for _, m := range built.Deps {
		if !slices.Contains(doc.Components, component{m.Path, m.Version}) {
			t.Errorf("%s: the bill has no %s %s", program, m.Path, m.Version)
		}
	}
}
