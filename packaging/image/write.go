package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdName is where `ctr images import` looks for an image's whole name.
const containerdName = "io.containerd.image.name"

// write writes an index as the OCI layout NAME.oci, and as the same in one file,
// NAME.oci.tar. What is there by these names is replaced once the new is whole.
func write(folder, name, version string, index v1.ImageIndex) (v1.Hash, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return v1.Hash{}, err
	}
	work, err := os.MkdirTemp(folder, ".new-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return v1.Hash{}, err
	}
	dir := filepath.Join(work, name+".oci")
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	names := map[string]string{specs.AnnotationRefName: version, containerdName: domain + name + ":" + version}
	if err := l.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return v1.Hash{}, err
	}
	if err := pack(dir, dir+".tar"); err != nil {
		return v1.Hash{}, err
	}
	for _, end := range []string{".oci", ".oci.tar"} {
		target := filepath.Join(folder, name+end)
		if err := os.RemoveAll(target); err != nil {
			return v1.Hash{}, err
		}
		if err := os.Rename(filepath.Join(work, name+end), target); err != nil {
			return v1.Hash{}, err
		}
	}
	return index.Digest()
}

// pack writes the files of a folder into one, in the order of their names and
// with nothing of this machine.
func pack(dir, target string) (err error) {
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	archive := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		if err := packOne(archive, path, name, d); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		return nil
	})
	return errors.Join(err, archive.Close())
}

func packOne(archive *tar.Writer, path, name string, d fs.DirEntry) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if d.IsDir() {
		h.Typeflag, h.Mode, h.Name = tar.TypeDir, 0o755, h.Name+"/"
		return archive.WriteHeader(h)
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	h.Size = info.Size()
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(archive, f)
	return err
}
