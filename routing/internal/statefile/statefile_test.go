package statefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"netclass.dev/routing/internal/statefile"
)

// TestReplace: the new text under the name, for its owner alone, and nothing else;
// where that cannot be, the old text.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	for _, text := range []string{"one, which is longer", "two"} {
		if err := statefile.Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := statefile.Replace(path, []byte("three")); err == nil {
		t.Error("it is written though it cannot be")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "two" {
		t.Errorf("after a failure %q, %v", got, err)
	}
}
