// Package statefile reads and writes the files of the state directory. Its owner may
// be a user of its own, and who acts on it root: what lies there under a file's name,
// or comes there meanwhile, never leads out of it.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes a file whole or not at all: after a crash or a power cut the name
// holds the old text or the new. The new text's own name is always the same, so
// that crashes leave no litter; one daemon alone writes a state directory.
func Replace(path string, data []byte) error {
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	name := filepath.Base(path)
	fresh := name + ".new"
	f, err := create(folder, fresh)
	if err != nil {
		return at(path+".new", err)
	}
	err = giveToOwner(f, folder)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = folder.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, folder.Remove(fresh))
	}
	// The name is on disk too once the folder is, where the file system can say so.
	if dir, err := folder.Open("."); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// create makes a file that was not there, in the place of what a crash has left: no
// link that lies there is followed, and what has another name too stays as it is.
func create(folder *os.Root, name string) (*os.File, error) {
	if err := folder.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// giveToOwner gives a file that root makes to the owner of its folder: the daemon,
// which is to read what a command of root's has written, may run as another user.
func giveToOwner(f *os.File, folder *os.Root) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := folder.Stat(".")
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// Read reads a file that is no longer than a limit in bytes. What is no file, such as
// a pipe that would never end, or a link that leads out of the folder, is an error;
// fs.ErrNotExist where there is nothing.
func Read(path string, limit int64) ([]byte, error) {
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	f, err := folder.OpenFile(filepath.Base(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, at(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file (%s)", path, info.Mode())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return data, nil
}

// at puts the whole path into an error that names a file by its place in the folder.
func at(path string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
	}
	return err
}
