package statefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing/internal/statefile"
	"netclass.dev/test/need"
)

const limit = 1 << 20

// TestReplace: the new text under the name, for its owner alone, and nothing else;
// where that cannot be, the old text.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	for _, text := range []string{"one, which is longer", "two"} {
		if err := statefile.Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := statefile.Read(path, limit); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	put(t, path+".new", "what a crash left")
	if err := statefile.Replace(path, []byte("three")); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v", files, err)
	}
	if err := os.MkdirAll(path+".new/full", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := statefile.Replace(path, []byte("four")); err == nil {
		t.Error("it is written though it cannot be")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "three" {
		t.Errorf("after a failure %q, %v", got, err)
	}
}

// TestPlanted: whoever owns the folder gains nothing by what is put where root writes:
// no other file's text, mode or owner changes.
func TestPlanted(t *testing.T) {
	need.Root(t)
	const nobody = 65534
	for _, suffix := range []string{"", ".new"} {
		for kind, plant := range map[string]func(target, at string) error{"symbolic": os.Symlink, "hard": os.Link} {
			top := t.TempDir()
			dir, precious := filepath.Join(top, "state"), filepath.Join(top, "precious")
			put(t, precious, "root's")
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "state.json")
			if err := plant(precious, path+suffix); err != nil {
				t.Fatal(err)
			}
			if err := statefile.Replace(path, []byte("ours")); err != nil {
				t.Errorf("%s link at %q: %v", kind, suffix, err)
			}
			info, err := os.Stat(precious)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := os.ReadFile(precious)
			if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || st.Gid != 0 || string(text) != "root's" {
				t.Errorf("%s link at %q: what it leads to is %d:%d's and says %q", kind, suffix, st.Uid, st.Gid, text)
			}
			info, err = os.Lstat(path)
			if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != nobody {
				t.Errorf("%s link at %q: written is %v, %v", kind, suffix, info, err)
			}
		}
	}
}

// TestReadPlanted: nor by what is put where root reads.
func TestReadPlanted(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "shadow")
	put(t, outside, "secret")
	link, pipe, long := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "long")
	put(t, long, strings.Repeat("x", limit+1))
	if err := errors.Join(os.Symlink(outside, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, long, dir} {
		done := make(chan error, 1)
		go func() {
			data, err := statefile.Read(path, limit)
			if len(data) > 0 {
				err = nil
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s is read, or its name not said: %v", path, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: still being read", path)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "none", "none")} {
		if _, err := statefile.Read(path, limit); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
