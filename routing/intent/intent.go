// Package intent reads the configuration file and validates it: what the
// operator wants, as routing.Config, or every fault with its place.
package intent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// Problem is one thing wrong with the configuration, with its place.
type Problem = strictyaml.Problem

// Problems are all things wrong with the configuration, by place.
type Problems = strictyaml.Problems

// limits are far above what a cluster's configuration needs.
var limits = strictyaml.Limits{Bytes: 1 << 20, Tokens: 100_000}

// Load reads the configuration file. A missing file is an idle configuration;
// the error is about reading alone.
func Load(path string) (*routing.Config, Problems, error) {
	data, err := read(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	c, problems := Parse(path, data)
	return c, problems, nil
}

// read returns the file's content, of one that is too large only so much that
// Parse sees that it is; of one that is not there nothing.
func read(path string) ([]byte, error) {
	data, err := strictyaml.ReadFile(path, limits)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Parse reads a configuration. Relative paths in it are taken from the folder
// of name, which is also what problems call the file. The Config is nil when
// there are errors; warnings leave it valid.
func Parse(name string, data []byte) (*routing.Config, Problems) {
	doc := strictyaml.Parse(name, data, limits)
	r := &reader{dir: folder(name), credentials: os.Getenv("CREDENTIALS_DIRECTORY")}
	r.read(doc.Root)
	r.check()
	problems := doc.Problems()
	if len(problems.Errors()) > 0 {
		return nil, problems
	}
	return &r.config, problems
}

func folder(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		path = name
	}
	return filepath.Dir(path)
}
