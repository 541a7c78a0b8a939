package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
)

// service is what Talos reads of an extension's service.
type service struct {
	Name      string
	Container struct {
		Entrypoint        string
		Args, Environment []string
		Mounts            []mount
	}
}

// configFiles are what a machine configuration gives to a service.
type configFiles struct {
	Environment []string
	ConfigFiles []struct{ Content, MountPath string }
}

// talos is a node that runs the extension's service.
type talos struct {
	container
	service service
	root    string
	content string // of the configuration; empty: there is none
}

// newTalos installs the extension on a node that has the machine configuration
// of the seed's examples.
func newTalos(t *testing.T, images string, n *lab.Node) *talos {
	t.Helper()
	rootfs := filepath.Join(unpack(t, filepath.Join(images, "netclassd-talos.oci")), "rootfs", "usr", "local")
	x := &talos{container: container{t: t, node: n, name: "ext-netclassd"}}
	text, err := os.ReadFile(filepath.Join(rootfs, "etc", "containers", "netclassd.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &x.service)
	}
	if err != nil {
		t.Fatal(err)
	}
	x.root = filepath.Join(rootfs, "lib", "containers", x.service.Name)
	var machine struct {
		Machine struct{ Sysctls map[string]string }
	}
	seedDocument(t, "all-nodes.yaml", "machine", &machine)
	settings := map[string]string{}
	for key, value := range machine.Machine.Sysctls {
		settings[strings.ReplaceAll(strings.TrimPrefix(key, "net."), ".", "/")] = value
	}
	if err := n.Sysctl(settings); err != nil {
		t.Fatal(err)
	}
	return x
}

// seedDocument reads the document of a machine configuration that has a key.
func seedDocument(t *testing.T, file, key string, into any) {
	t.Helper()
	text, err := os.ReadFile(repository("packaging/talos/seed/" + file))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.HasPrefix(document, key+":") || strings.Contains(document, "\n"+key+":") {
			if err := yaml.Unmarshal([]byte(document), into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no document with %s", file, key)
}

// host returns where a path of the node's operating system is on this machine,
// whose file system the nodes share.
func (x *talos) host(path string) string { return x.node.File(filepath.Join("root", path)) }

// start does what Talos does to start the service: what is mounted is made where
// it is missing, for root alone, and the configuration is mounted file by file.
func (x *talos) start() {
	x.t.Helper()
	s := &spec{
		root: x.root, args: append([]string{x.service.Container.Entrypoint}, x.service.Container.Args...),
		env: slices.Clone(x.service.Container.Environment), capabilities: grantable(x.t), forbidden: forbiddenToAll,
	}
	for _, m := range x.service.Container.Mounts {
		if err := os.MkdirAll(x.host(m.Source), 0o700); err != nil {
			x.t.Fatal(err)
		}
		m.Source = x.host(m.Source)
		s.mounts = append(s.mounts, m)
	}
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		s.mounts = append(s.mounts, bind(x.write(name, "", 0o644), name, "ro"))
	}
	s.env = append(s.env, "NODE_NAME="+x.node.Name)
	if x.content != "" {
		s.mounts = append(s.mounts, bind(x.write("/system/overlays/extensions/netclassd/etc-netclassd-config.yaml", x.content, 0o644), "/etc/netclassd/config.yaml", "ro"))
	}
	x.spec = s
	x.run()
}

// write writes a file of the node's operating system and returns where it is.
func (x *talos) write(path, content string, mode os.FileMode) string {
	x.t.Helper()
	path = x.host(path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), mode)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return path
}

// stop does what Talos does to stop the service: it tells every process in it.
func (x *talos) stop() { x.t.Helper(); x.end(x.inside()...) }

// kubeconfig writes the credentials where secrets.yaml has them.
func (x *talos) kubeconfig(api *kubeapi.Server, token string) {
	x.t.Helper()
	text, err := os.ReadFile(api.Kubeconfig(x.t.TempDir(), token))
	if err != nil {
		x.t.Fatal(err)
	}
	x.write("/var/lib/netclassd/secrets/kubeconfig", string(text), 0o600)
}

// grantable returns all capabilities that there are on this machine but the two
// that Talos keeps to itself.
func grantable(t *testing.T) []string {
	t.Helper()
	c := container{t: t}
	bounding, err := strconv.ParseUint(c.status(os.Getpid(), "CapBnd"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, name := range capabilities {
		if bounding&(1<<i) != 0 && name != "SYS_MODULE" && name != "SYS_BOOT" {
			names = append(names, "CAP_"+name)
		}
	}
	return names
}

// capabilities are all, in the order of their numbers (linux/capability.h).
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
	SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
	MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// mask returns capabilities as the kernel shows them.
func mask(names ...string) string {
	var m uint64
	for _, name := range names {
		m |= 1 << slices.Index(capabilities, strings.TrimPrefix(name, "CAP_"))
	}
	return fmt.Sprintf("%016x", m)
}
