package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
)

// kind is one of the images of a release.
type kind struct {
	name, title string
	entrypoint  []string // none: nobody runs the image as a container
	contents    func(r *release, arch string) (tree, error)
}

var kinds = []kind{
	{"netclassd", "netclassd and netclassctl, to run as a pod of the host's network", []string{bin + "/netclassd"}, (*release).container},
	{"netclassd-talos", "netclassd as a system extension of Talos", nil, (*release).extension},
}

// bin is where the programs are inside a container.
const bin = "/usr/local/bin"

// idle is the configuration of an image by itself.
const idle = "# netclassd idles, healthy, until a configuration is mounted over this file.\n"

// container returns what netclassd finds as its root.
func (r *release) container(arch string) (tree, error) {
	licences, err := os.ReadFile(filepath.Join(r.binaries, "LICENSES"))
	if err != nil {
		return nil, err
	}
	t := tree{
		"etc/netclassd/config.yaml":            {file, []byte(idle)},
		"run/netclassd":                        {mode: folder},
		"usr/share/licenses/netclass/LICENSES": {file, licences},
		"var/lib/netclassd":                    {mode: folder},
	}
	for _, name := range []string{"netclassd", "netclassctl"} {
		data, err := os.ReadFile(filepath.Join(r.binaries, "linux_"+arch, name))
		if err != nil {
			return nil, err
		}
		if err := runsOn(data, arch); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		t[path.Join(bin, name)[1:]] = entry{program, data}
	}
	return t, nil
}

// Where Talos looks for the services of extensions, and for their roots.
const (
	talosServices = "rootfs/usr/local/etc/containers"
	talosRoots    = "rootfs/usr/local/lib/containers"
)

// extension returns a Talos system extension: its manifest, the service, and the
// service's root with all that a container runtime mounts something on.
func (r *release) extension(arch string) (tree, error) {
	root, err := r.container(arch)
	if err != nil {
		return nil, err
	}
	maps.Copy(root, tree{
		"dev": {mode: folder}, "proc": {mode: folder}, "sys": {mode: folder},
		"etc/hosts": {mode: file}, "etc/resolv.conf": {mode: file},
	})
	manifest, err := os.ReadFile(filepath.Join(r.talos, "manifest.yaml"))
	if err != nil {
		return nil, err
	}
	versioned := bytes.Replace(manifest, []byte("version: VERSION\n"), fmt.Appendf(nil, "version: %q\n", r.version), 1)
	if bytes.Equal(versioned, manifest) {
		return nil, errors.New("manifest.yaml has no line for the version")
	}
	service, err := os.ReadFile(filepath.Join(r.talos, "netclassd.yaml"))
	if err != nil {
		return nil, err
	}
	t := tree{
		"manifest.yaml":                   {file, versioned},
		talosServices + "/netclassd.yaml": {file, service},
	}
	for name, e := range root {
		t[path.Join(talosRoots, "netclassd", name)] = e
	}
	return t, nil
}
