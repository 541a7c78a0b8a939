package strictyaml_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing/internal/strictyaml"
)

// A half-written file may be valid by itself, and is not taken.
func TestReadFileWaitsForItsWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("one\n"); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(300 * time.Millisecond)
		_, _ = w.WriteString("two\n")
		_ = w.Close()
	}()
	data, err := strictyaml.ReadFile(path, strictyaml.Limits{Bytes: 100})
	if err != nil || string(data) != "one\ntwo\n" {
		t.Errorf("read %q, %v", data, err)
	}
}

// What is no file answers too, at once where nobody writes to it.
func TestReadFileOfPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		if data, err := strictyaml.ReadFile(path, strictyaml.Limits{Bytes: 100}); err != nil || len(data) > 0 {
			t.Errorf("read %q, %v", data, err)
		}
	}()
	select {
	case <-read:
	case <-time.After(2 * time.Second):
		t.Fatal("still waiting for somebody to write")
	}
}
