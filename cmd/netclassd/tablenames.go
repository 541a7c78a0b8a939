package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"netclass.dev/routing"
)

// tableNames is the name of the file in the state directory that gives the tables
// their names in ip-route(8). The packages link it into iproute2's directory.
const tableNames = "rt_tables.conf"

// nameTables writes the names of the configured tables. Nothing depends on it.
func (d *daemon) nameTables(c *routing.Config) {
	if err := writeTableNames(d.stateDir, c.Tables); err != nil {
		d.log.Warn("tables not named for iproute2", "error", err)
	}
}

func writeTableNames(dir string, tables []routing.Table) error {
	path := filepath.Join(dir, tableNames)
	text := tableNamesText(tables)
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, text) || errors.Is(err, fs.ErrNotExist) && len(tables) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("name tables: %w", err)
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, text, 0o644); err != nil {
		return fmt.Errorf("name tables: %w", err)
	}
	// Whatever the umask: these names are nobody's secret.
	err = errors.Join(os.Chmod(fresh, 0o644), os.Rename(fresh, path))
	if err != nil {
		os.Remove(fresh)
		return fmt.Errorf("name tables: %w", err)
	}
	return nil
}

// tableNamesText is a file as rt_tables.d has them. Main has its name already.
func tableNamesText(tables []routing.Table) []byte {
	var b strings.Builder
	b.WriteString("# Written by netclassd from its configuration.\n")
	for i := range tables {
		if t := &tables[i]; t.ID != routing.MainID {
			fmt.Fprintf(&b, "%d\t%s\n", t.ID, t.Name)
		}
	}
	return []byte(b.String())
}
