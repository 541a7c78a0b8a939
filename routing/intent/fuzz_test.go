package intent_test

import (
	"os"
	"path/filepath"
	"testing"

	"netclass.dev/routing/intent"
)

// FuzzParse looks for input that panics, or is neither refused nor a Config.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../examples/*.yaml", "../../examples/seed/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, text := range []string{everyError, "", "&a [*a]", "? [a]: {<<: *b}", "a: |\n  b\n\tc", "[[[[{", "\ufeff%YAML 1.1\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, problems := intent.Parse("fuzz.yaml", data)
		if (c == nil) == (len(problems.Errors()) == 0) {
			t.Fatalf("Config %v and problems %v", c, problems)
		}
		for _, p := range problems {
			if p.Message == "" || p.Line < 0 || p.Column < 0 || p.String() == "" {
				t.Errorf("problem without a message or place: %+v", p)
			}
		}
	})
}
