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

// TestDocumentation: what the commands' helps and the documents themselves name can
// be read where the package is installed.
func TestDocumentation(t *testing.T) {
	need.Program(t, "bash")
	need.Program(t, "dpkg-deb")
	out := t.TempDir()
	cmd := exec.Command("../../packaging/deb-rpm/build.sh", out, runtime.GOARCH)
	cmd.Env = append(os.Environ(), "VERSION=v2.3.4", "SOURCE_DATE_EPOCH=1750000000", "FORMATS=deb", "BUILD_DIR="+t.TempDir())
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	root := t.TempDir()
	for _, deb := range files(t, out, "*.deb") {
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

// TestReproducible: the same source gives the same bytes, whoever builds it, where,
// when and with what has been built before.
func TestReproducible(t *testing.T) {
	need.Program(t, "bash")
	build := func(file string) map[string][]byte {
		out := t.TempDir()
		cmd := exec.Command("../../packaging/deb-rpm/build.sh", out, runtime.GOARCH)
		cmd.Env = append(os.Environ(), "VERSION=v2.3.4-rc1", "SOURCE_DATE_EPOCH=1750000000", "BUILD_DIR="+t.TempDir(), "TZ="+file)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, text)
		}
		packages := map[string][]byte{}
		files, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if packages[f.Name()], err = os.ReadFile(filepath.Join(out, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
		return packages
	}
	first, second := build("UTC"), build("Asia/Tokyo")
	if len(first) != 2 || len(second) != 2 {
		t.Fatalf("%d packages, then %d: want a deb and an rpm", len(first), len(second))
	}
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs from the one built before", name)
		}
	}
}
