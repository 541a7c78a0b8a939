package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/configpatcher"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"github.com/siderolabs/talos/pkg/machinery/extensions/services"
	"go.yaml.in/yaml/v4"
)

// extension unpacks the extension's image, as Talos's installer does.
func extension(t *testing.T) string {
	t.Helper()
	return unpacked(t, open(t, built(t), "netclassd-talos"), "amd64")
}

// TestExtension: Talos itself accepts it, from the oldest release that is named to
// a new one.
func TestExtension(t *testing.T) {
	e, err := extensions.Load(extension(t))
	if err != nil {
		t.Fatal(err)
	}
	if e.Manifest.Metadata.Name != "netclassd" || e.Manifest.Metadata.Version != "v1.2.3" {
		t.Errorf("%+v", e.Manifest)
	}
	for version, ok := range map[string]bool{"1.6.8": false, "1.7.0": true, "1.13.0": true, "1.14.0": true} {
		v := semver.MustParse(version)
		err := e.Validate(extensions.WithTalosVersion(&v), extensions.WithValidateConstraints(), extensions.WithValidateContents())
		if (err == nil) != ok {
			t.Errorf("Talos %s: %v", version, err)
		}
	}
}

// TestExtensionModes: Talos means to refuse what others may write; that nobody may
// is held here, where it is looked at.
func TestExtensionModes(t *testing.T) {
	dir := extension(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if m := info.Mode(); m&0o022 != 0 || m&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 || !m.IsDir() && !m.IsRegular() {
			t.Errorf("%s: %v", path, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// service reads the service as Talos does, and refuses keys that Talos does not
// know.
func service(t *testing.T, dir string) services.Spec {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "rootfs/usr/local/etc/containers/*"))
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != "netclassd.yaml" {
		t.Fatalf("services %v, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var s services.Spec
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestService(t *testing.T) {
	dir := extension(t)
	s := service(t, dir)
	root := filepath.Join(dir, "rootfs/usr/local/lib/containers", s.Name)
	if !regexp.MustCompile(`^[-_a-z0-9]+$`).MatchString(s.Name) || s.Name != "netclassd" {
		t.Errorf("name %q", s.Name)
	}
	if s.Restart != services.RestartAlways {
		t.Errorf("restart %v: a daemon that ends is to be started again", s.Restart)
	}
	// What is waited for must come, configuration or not, or Talos reboots the node
	// when its boot is over time.
	if len(s.Depends) != 1 || s.Depends[0].Path != "/var/lib" {
		t.Errorf("depends on %+v", s.Depends)
	}
	if c := s.Container.Security; c.WriteableRootfs || c.WriteableSysfs || c.MaskedPaths != nil || c.ReadonlyPaths != nil || c.RootfsPropagation != "" {
		t.Errorf("security %+v", c)
	}
	if info, err := os.Stat(filepath.Join(root, s.Container.Entrypoint)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("entrypoint: %v %v", info, err)
	}
	if s.Container.EnvironmentFile != "" {
		t.Errorf("waits for the environment file %s", s.Container.EnvironmentFile)
	}
	sources := []string{}
	for _, m := range s.Container.Mounts {
		sources = append(sources, m.Source)
		if info, err := os.Stat(filepath.Join(root, m.Destination)); err != nil || !info.IsDir() {
			t.Errorf("nothing to mount %s on: %v", m.Destination, err)
		}
		if o := strings.Join(m.Options, ","); m.Type != "bind" || m.Source != m.Destination || !strings.HasPrefix(o, "bind,rw") {
			t.Errorf("mount %+v", m)
		}
	}
	if strings.Join(sources, " ") != "/run/netclassd /var/lib/netclassd" {
		t.Errorf("mounts %v", sources)
	}
}

// patch returns a patch of the seed's.
func patch(t *testing.T, name string) configpatcher.Patch {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "talos", "seed", name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := configpatcher.LoadPatch(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

// metal is a machine with disks.
type metal struct{}

func (metal) String() string        { return "metal" }
func (metal) RequiresInstall() bool { return true }
func (metal) InContainer() bool     { return false }

// handMade is what the seed's nodes have of the set-up by hand.
const handMade = `
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1000"
src: fd00:10:244::/48
table: "47"
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1001"
src: 10.244.0.0/16
table: "47"
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1002"
src: fd00:47:64::/112
table: "47"
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1003"
src: 10.47.64.0/24
table: "47"
`

// TestPatchedAgain: a configuration that is patched in takes the place of the one
// before.
func TestPatchedAgain(t *testing.T) {
	c := node(t, "all-nodes.yaml", "k8s-1.yaml", "all-nodes.yaml")
	if list := c.ExtensionServiceConfigs(); len(list) != 1 || len(list[0].ConfigFiles()) != 1 {
		t.Errorf("%+v", list)
	}
}

// node returns a node's configuration with the patches.
func node(t *testing.T, patches ...string) config.Provider {
	t.Helper()
	input, err := generate.NewInput("seed", "https://10.46.0.1:6443", "1.35.0", generate.WithInstallDisk("/dev/sda"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := input.Config(machine.TypeControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	text, err := base.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var list []configpatcher.Patch
	for _, name := range patches {
		list = append(list, patch(t, name))
	}
	out, err := configpatcher.Apply(configpatcher.WithBytes(append(text, handMade...)), list)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = out.Bytes(); err != nil {
		t.Fatal(err)
	}
	c, err := configloader.NewFromBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	if warnings, err := c.Validate(metal{}); err != nil {
		t.Fatalf("%v %v", warnings, err)
	}
	return c
}

// TestMachineConfig: Talos takes the patches, and they say what the seed needs.
func TestMachineConfig(t *testing.T) {
	before := node(t)
	if n := len(before.NetworkRoutingRuleConfigs()); n != 4 {
		t.Fatalf("%d rules before the patches", n)
	}
	c := node(t, "all-nodes.yaml", "k8s-1.yaml", "secrets.yaml", "delete-rules.yaml")
	if n := len(c.NetworkRoutingRuleConfigs()); n != 0 {
		t.Errorf("%d rules are left", n)
	}
	seed, err := os.ReadFile("../../examples/seed/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list := c.ExtensionServiceConfigs()
	if len(list) != 1 || list[0].Name() != "netclassd" || strings.Join(list[0].Environment(), " ") != "NODE_NAME=k8s-1" || len(list[0].ConfigFiles()) != 1 {
		t.Fatalf("%+v", list)
	}
	file := list[0].ConfigFiles()[0]
	want := strings.ReplaceAll(string(seed[bytes.Index(seed, []byte("apiVersion:")):]), "/etc/netclassd/kubeconfig", "/var/lib/netclassd/secrets/kubeconfig")
	if file.MountPath() != "/etc/netclassd/config.yaml" || file.Content() != want {
		t.Errorf("%s is not the seed's configuration:\n%s", file.MountPath(), file.Content())
	}
	if strings.Contains(file.Content(), "REPLACE") {
		t.Error("a secret is where everybody may read it")
	}
	written, err := c.Machine().Files()
	if err != nil || len(written) != 2 {
		t.Fatal(err, written)
	}
	for _, f := range written {
		if f.Permissions() != 0o600 || filepath.Dir(f.Path()) != "/var/lib/netclassd/secrets" || f.Op() != "create" {
			t.Errorf("%s: %v %s", f.Path(), f.Permissions(), f.Op())
		}
	}
	if got := c.Machine().NodeAnnotations()["net.renner.uno/pod0-v4"]; got != "10.48.0.1" {
		t.Errorf("annotation %q", got)
	}
}
