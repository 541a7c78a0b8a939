package intent_test

import (
	"os"
	"path/filepath"
	"testing"

	"netclass.dev/routing/intent"
)

// TestExamples parses every configuration that we show to people.
func TestExamples(t *testing.T) {
	for _, pattern := range []string{"../../examples/*.yaml", "../../examples/seed/config*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no examples in %s: %v", pattern, err)
		}
		for _, path := range paths {
			c, problems, err := intent.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if errs := problems.Errors(); len(errs) > 0 || c == nil {
				t.Errorf("%s:\n%v", path, errs)
			}
			for _, p := range problems {
				t.Log(p.String())
			}
		}
	}
}

func TestIdle(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	for name, text := range map[string]string{
		"empty": "", "comments": "# one\n\n# two\n", "blank": " \n\n", "document start": "---\n# nothing\n",
		"byte order mark": "\ufeff# x\r\n", "header only": "apiVersion: netclass.dev/v1alpha1\n",
	} {
		if err := os.WriteFile(empty, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, problems, err := intent.Load(empty)
		if err != nil || len(problems) > 0 || c == nil || !c.Idle() {
			t.Errorf("%s: idle %v, problems %v, error %v", name, c, problems, err)
		}
	}
	c, problems, err := intent.Load(filepath.Join(t.TempDir(), "none", "missing.yaml"))
	if err != nil || len(problems) > 0 || c == nil || !c.Idle() || c.Daemon.Protocol != 148 || c.Log.Level != "info" {
		t.Errorf("missing file: %+v, problems %v, error %v", c, problems, err)
	}
	if _, _, err := intent.Load(t.TempDir()); err == nil {
		t.Error("a folder was read as a configuration")
	}
}
