package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

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
	old, err := readNames(path)
	if err == nil && bytes.Equal(old, text) || errors.Is(err, fs.ErrNotExist) && len(tables) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("name tables: %w", err)
	}
	if err := replaceIn(dir, tableNames, text); err != nil {
		return fmt.Errorf("name tables: %w", err)
	}
	return nil
}

// readNames reads what has been written. What is no file of the folder's has not:
// a link is an error, and a pipe is empty.
func readNames(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// replaceIn writes a file of a folder that all may read, whole or not at all. The
// folder may be another user's than ours: no link in it is followed.
func replaceIn(dir, name string, text []byte) error {
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	fresh := name + ".new"
	if err := folder.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := folder.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	// Whatever the umask: these names are nobody's secret.
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = folder.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, folder.Remove(fresh))
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
