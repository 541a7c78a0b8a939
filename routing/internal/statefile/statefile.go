// Package statefile writes the files of the state directory.
package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes a file whole or not at all: after a crash or a power cut the name
// holds the old text or the new. The new text's own name is always the same, so
// that crashes leave no litter; one daemon alone writes a state directory.
func Replace(path string, data []byte) error {
	fresh, folder := path+".new", filepath.Dir(path)
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = giveToOwner(f, folder)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	// The name is on disk too once the folder is, where the file system can say so.
	if dir, err := os.Open(folder); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// giveToOwner gives a file that root makes to the owner of its folder: the daemon,
// which is to read what a command of root's has written, may run as another user.
func giveToOwner(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
