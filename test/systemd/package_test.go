package systemd

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"netclass.dev/test/need"
)

// TestPackages: what a package has besides the programs, and that it is the same
// whoever makes it.
func TestPackages(t *testing.T) {
	need.Program(t, "bash")
	need.Program(t, "dpkg-deb")
	out := build(t, "TZ=UTC")
	t.Run("documentation", func(t *testing.T) { documentation(t, out) })
	t.Run("reproducible", func(t *testing.T) { reproducible(t, out) })
}

// documentation: what the commands' helps and the documents themselves name can be
// read where the package is installed.
func documentation(t *testing.T, out string) {
	root := t.TempDir()
	for _, deb := range files(t, out, "*_"+runtime.GOARCH+".deb") {
		if text, err := exec.Command("dpkg-deb", "--extract", deb, root).CombinedOutput(); err != nil {
			t.Fatalf("extract: %v\n%s", err, text)
		}
		text, err := exec.Command("dpkg-deb", "--field", deb, "Maintainer").Output()
		if want := "netclass maintainers <maintainers@netclass.dev>\n"; err != nil || string(text) != want {
			t.Errorf("maintainer %q, %v", text, err)
		}
	}
	doc := filepath.Join(root, "usr/share/doc/netclass")
	for _, name := range []string{"README.md", "docs/migrate-from-bird.md", "docs/drain.md", "examples/reference.yaml", "examples/seed/config.yaml",
		"packaging/kubernetes/kustomization.yaml", "packaging/kubernetes/rbac.yaml", "packaging/talos/debug-pod.yaml"} {
		if info, err := os.Stat(filepath.Join(doc, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	licensed(t, filepath.Join(doc, "LICENSES"), filepath.Join(root, "usr/sbin/netclassd"), filepath.Join(root, "usr/bin/netclassctl"))
	links := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "packaging/*/*.md"} {
		for _, file := range files(t, doc, pattern) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range link.FindAllStringSubmatch(string(text), -1) {
				if found[1] == "CONTRIBUTING.md" { // which is of no use without the source
					continue
				}
				links++
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), found[1])); err != nil {
					t.Errorf("%s has a link to %s, which is not there", file, found[1])
				}
			}
		}
	}
	if links < 10 {
		t.Errorf("%d links: are they read?", links)
	}
}

// licensed: of every module in the programs there is the licence.
func licensed(t *testing.T, licences string, programs ...string) {
	t.Helper()
	text, err := os.ReadFile(licences)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		built, err := buildinfo.ReadFile(program)
		if err != nil || len(built.Deps) == 0 {
			t.Fatalf("%s: %v", program, err)
		}
		for _, module := range built.Deps {
			if _, licence, found := bytes.Cut(text, []byte("\n==== "+module.Path+" "+module.Version+"\n\n---- ")); !found || len(licence) < 500 {
				t.Errorf("%s: no licence of %s %s", licences, module.Path, module.Version)
			}
		}
	}
	if !bytes.Contains(text, []byte("\n==== netclass.dev\n\n---- LICENSE\n")) {
		t.Errorf("%s: no licence of netclass itself", licences)
	}
}

// files lists the files of a folder that a pattern names.
func files(t *testing.T, folder, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("%s in %s: %v, %v", pattern, folder, list, err)
	}
	return list
}

// build builds the packages of both architectures for an environment, and returns
// their folder.
func build(t *testing.T, env ...string) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("../../packaging/deb-rpm/build.sh", out)
	cmd.Env = append(append(os.Environ(), "VERSION=v2.3.4-rc1", "SOURCE_DATE_EPOCH=1750000000", "BUILD_DIR="+t.TempDir()), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return out
}

// reproducible: the same source gives the same bytes as in a folder, whoever builds
// it, where, when, for which processors and with what has been built before.
func reproducible(t *testing.T, first string) {
	second := build(t, "TZ=Asia/Tokyo", "LC_ALL=tr_TR.UTF-8", "GOAMD64=v3", "GOARM64=v8.2", "GOFLAGS=-tags=netgo", "GOEXPERIMENT=nogreenteagc", "CGO_ENABLED=1")
	list := files(t, first, "*")
	if again := files(t, second, "*"); len(list) != 4 || len(again) != 4 {
		t.Fatalf("%v, then %v: want a deb and an rpm of each architecture", list, again)
	}
	for _, file := range list {
		one, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(second, filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s differs from the one built before", filepath.Base(file))
		}
	}
}
