// Package packaging runs what is packaged the way that it is run where it is
// installed: the images in containers, with the rights, mounts and configuration
// that they come with.
package packaging

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// builder is the program that makes images and renders kustomizations.
func builder(t *testing.T) string {
	t.Helper()
	program := lab.Built("netclass-image")
	need.Built(t, program, "bin/netclass-image")
	return program
}

// images builds the images of the built programs, for this machine alone.
func images(t *testing.T) string {
	t.Helper()
	binaries, out := t.TempDir(), t.TempDir()
	arch := filepath.Join(binaries, "linux_"+runtime.GOARCH)
	if err := os.Mkdir(arch, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"netclassd", "netclassctl"} {
		need.Built(t, lab.Built(name), "build")
		built, err := filepath.Abs(lab.Built(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(built, filepath.Join(arch, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(binaries, "LICENSES"), []byte("of all\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(builder(t), "build", "-version", "test", "-arch", runtime.GOARCH, "-binaries", binaries,
		"-talos", repository("packaging/talos"), "-out", out).CombinedOutput()
	if err != nil {
		t.Fatalf("build images: %v: %s", err, said)
	}
	return out
}

// repository returns the path of a file of the project.
func repository(path string) string { return filepath.Join("..", "..", path) }

// descriptor is what names another part of an image (OCI image specification).
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
}

// unpack writes what an image has in it to disk, following the layout from its
// index.json to the one layer.
func unpack(t *testing.T, layout string) string {
	t.Helper()
	var index struct{ Manifests []descriptor }
	var manifest struct{ Layers []descriptor }
	read := func(path string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(layout, path))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	blob := func(list []descriptor) string {
		t.Helper()
		if len(list) != 1 {
			t.Fatalf("want one part, got %+v", list)
		}
		return filepath.Join("blobs", strings.ReplaceAll(list[0].Digest, ":", "/"))
	}
	read("index.json", &index)
	read(blob(index.Manifests), &index) // of the architectures
	read(blob(index.Manifests), &manifest)
	f, err := os.Open(filepath.Join(layout, blob(manifest.Layers)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err == nil {
			err = unpackOne(archive, h, filepath.Join(dir, h.Name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpackOne(archive *tar.Reader, h *tar.Header, path string) error {
	if h.Typeflag == tar.TypeDir {
		return os.Mkdir(path, fs.FileMode(h.Mode))
	}
	data, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, fs.FileMode(h.Mode))
}

// render returns what a kustomization makes.
func render(t *testing.T, folder string) string {
	t.Helper()
	text, err := exec.Command(builder(t), "render", repository(folder)).Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			t.Fatalf("render %s: %s", folder, ended.Stderr)
		}
		t.Fatal(err)
	}
	return string(text)
}
