package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tree is the files of an image, by their path without the leading slash. The
// folders above them need not be named.
type tree map[string]entry

// entry is a file, or an empty folder. Everything is root's.
type entry struct {
	mode fs.FileMode
	data []byte
}

// file and program are the modes that files have, folder that of folders.
const (
	file    fs.FileMode = 0o644
	program fs.FileMode = 0o755
	folder  fs.FileMode = fs.ModeDir | 0o755
)

// layer packs the tree as one layer.
func (t tree) layer(created time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if err := t.tar(zip, created); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// tar writes the tree in the order of the paths, so that it depends on nothing
// but its content.
func (t tree) tar(w io.Writer, created time.Time) error {
	all := maps.Clone(t)
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if e, named := t[dir]; named && !e.mode.IsDir() {
				return fmt.Errorf("pack %s: %s is a file", name, dir)
			}
			all[dir] = entry{mode: folder}
		}
	}
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: int64(e.mode.Perm()), Size: int64(len(e.data)), ModTime: created, Format: tar.FormatPAX,
		}
		if e.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		}
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := archive.Write(e.data); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return archive.Close()
}
