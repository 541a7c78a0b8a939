package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// programOf returns the shortest program for a machine: a header.
func programOf(m elf.Machine) []byte {
	var b bytes.Buffer
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(m), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56,
	}
	_ = binary.Write(&b, binary.LittleEndian, h) // into memory
	return b.Bytes()
}

// binaries writes programs as the builder wants them.
func binaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "LICENSES"), []byte("of all\n"))
	for arch, m := range machines {
		for _, name := range []string{"netclassd", "netclassctl"} {
			path := filepath.Join(dir, "linux_"+arch, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(programOf(m), name...), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// built builds both images and returns their folder.
func built(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	var said bytes.Buffer
	args = append([]string{"build", "-version", "v1.2.3", "-created", "1700000000", "-talos", "../talos", "-binaries", binaries(t), "-out", out}, args...)
	if err := run(args, &said); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(said.String(), "sha256:"); got != len(kinds) {
		t.Errorf("%d digests are named in\n%s", got, &said)
	}
	return out
}

// open returns the index of an image's layout, as a registry would be given it.
func open(t *testing.T, folder, name string) v1.ImageIndex {
	t.Helper()
	top, err := layout.ImageIndexFromPath(filepath.Join(folder, name+".oci"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v: want one index in the layout, got %+v", err, manifest)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// unpacked writes an architecture's image to disk, as a runtime does.
func unpacked(t *testing.T, index v1.ImageIndex, arch string) string {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		if d.Platform.OS != "linux" || d.Platform.Architecture != arch {
			continue
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		r := mutate.Extract(image)
		defer r.Close()
		return untar(t, r)
	}
	t.Fatalf("no image for %s", arch)
	return ""
}

func untar(t *testing.T, r io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s is owned by %d:%d %s:%s", h.Name, h.Uid, h.Gid, h.Uname, h.Gname)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, fs.FileMode(h.Mode)) // its parent came before
		} else {
			var data []byte
			if data, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, data, fs.FileMode(h.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// files lists what is below a folder, with modes.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintf(&b, "%v /%s\n", info.Mode(), strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestContents(t *testing.T) {
	out := built(t)
	index := open(t, out, "netclassd")
	for arch, m := range machines {
		dir := unpacked(t, index, arch)
		want := `drwxr-xr-x /etc
drwxr-xr-x /etc/netclassd
-rw-r--r-- /etc/netclassd/config.yaml
drwxr-xr-x /run
drwxr-xr-x /run/netclassd
drwxr-xr-x /usr
drwxr-xr-x /usr/local
drwxr-xr-x /usr/local/bin
-rwxr-xr-x /usr/local/bin/netclassctl
-rwxr-xr-x /usr/local/bin/netclassd
drwxr-xr-x /usr/share
drwxr-xr-x /usr/share/licenses
drwxr-xr-x /usr/share/licenses/netclass
-rw-r--r-- /usr/share/licenses/netclass/LICENSES
drwxr-xr-x /var
drwxr-xr-x /var/lib
drwxr-xr-x /var/lib/netclassd
`
		if got := files(t, dir); got != want {
			t.Errorf("%s has\n%swant\n%s", arch, got, want)
		}
		data, err := os.ReadFile(filepath.Join(dir, "usr/local/bin/netclassd"))
		if err != nil || !bytes.Equal(data, append(programOf(m), "netclassd"...)) {
			t.Errorf("%s: %v, the program is another", arch, err)
		}
	}
	for _, k := range kinds {
		if err := validate.Index(open(t, out, k.name)); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// TestConfig: what a runtime is told.
func TestConfig(t *testing.T) {
	index := open(t, built(t), "netclassd")
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatal(err, manifest)
	}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c.Architecture != d.Platform.Architecture || c.OS != "linux" || c.Created.Unix() != 1700000000 ||
			fmt.Sprint(c.Config.Entrypoint) != "[/usr/local/bin/netclassd]" || c.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
			t.Errorf("%+v", c)
		}
	}
}

// TestReproducible: neither the machine nor the moment shows in the bytes.
func TestReproducible(t *testing.T) {
	first := built(t)
	time.Sleep(time.Second) // what a layout's or an archive's times could show
	old := syscall.Umask(0o077)
	second := built(t)
	syscall.Umask(old)
	for _, k := range kinds {
		one, err := os.ReadFile(filepath.Join(first, k.name+".oci.tar"))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(second, k.name+".oci.tar"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s differs from build to build", k.name)
		}
		// The one file is the layout.
		index, err := layout.ImageIndexFromPath(untar(t, bytes.NewReader(one)))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s.oci.tar: %v", k.name, err)
		}
	}
}

// TestReplaced: nothing of an older build stays.
func TestReplaced(t *testing.T) {
	out := t.TempDir()
	stale := filepath.Join(out, "netclassd.oci", "blobs", "sha256", "stale")
	if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	built(t, "-out", out)
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	names, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(names) != 4 {
		t.Errorf("%v %v", names, err)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".new-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, binaries, talos string) []string
		want  string
	}{
		"no version":      {func(*testing.T, string, string) []string { return []string{"-version", ""} }, "--version is needed"},
		"an argument":     {func(*testing.T, string, string) []string { return []string{"now"} }, `takes no argument "now"`},
		"an architecture": {func(*testing.T, string, string) []string { return []string{"-arch", "mips"} }, "no such file"},
		"the wrong program": {func(t *testing.T, binaries, _ string) []string {
			put(t, filepath.Join(binaries, "linux_arm64", "netclassd"), programOf(elf.EM_X86_64))
			return nil
		}, "the program is for EM_X86_64, not EM_AARCH64"},
		"no program": {func(t *testing.T, binaries, _ string) []string {
			put(t, filepath.Join(binaries, "linux_amd64", "netclassctl"), []byte("#!/bin/sh\n"))
			return nil
		}, "netclassctl: read program"},
		"no licences": {func(t *testing.T, binaries, _ string) []string {
			if err := os.Remove(filepath.Join(binaries, "LICENSES")); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "LICENSES: no such file"},
		"a manifest without a version": {func(t *testing.T, _, talos string) []string {
			put(t, filepath.Join(talos, "manifest.yaml"), []byte("version: v1alpha1\n"))
			return nil
		}, "no line for the version"},
	} {
		t.Run(name, func(t *testing.T) {
			bins, talos, out := binaries(t), t.TempDir(), t.TempDir()
			if err := os.CopyFS(talos, os.DirFS("../talos")); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"build", "-version", "v1", "-talos", talos, "-binaries", bins, "-out", out}, tt.spoil(t, bins, talos)...)
			if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestStatic: a program that needs a loader has none in the image.
func TestStatic(t *testing.T) {
	if err := runsOn(programOf(elf.EM_X86_64), "amd64"); err != nil {
		t.Error(err)
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := runsOn(shell, "amd64"); err == nil {
		t.Error("/bin/sh passes for static")
	}
}
