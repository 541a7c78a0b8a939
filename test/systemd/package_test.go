package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"netclass.dev/test/need"
)

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
