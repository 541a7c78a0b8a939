package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"netclass.dev/routing"
)

// NetclassdOptions says how to run netclassd on a node.
type NetclassdOptions struct {
	Config string   // the configuration's text; default: SeedConfig
	Nodes  string   // the nodes file's text; default: the lab's nodes
	Args   []string // in addition
	Binary string   // default: the built one
	Env    []string
}

// Netclassd is a netclassd on a node. It may be stopped, killed and started
// again.
type Netclassd struct {
	*Process
	Node       *Node
	Dir        string
	ConfigFile string
	NodesFile  string
	Socket     string
	StateDir   string

	opts NetclassdOptions
}

// StartNetclassd writes the files of a netclassd and starts it. It does not wait
// for anything: Ctl or Lab.WaitSeparated say when it is ready.
func (n *Node) StartNetclassd(opts NetclassdOptions) (*Netclassd, error) {
	d, err := n.PrepareNetclassd(opts)
	if err != nil {
		return nil, err
	}
	return d, d.Start()
}

// PrepareNetclassd writes the files of a netclassd and leaves its start to the
// caller.
func (n *Node) PrepareNetclassd(opts NetclassdOptions) (*Netclassd, error) {
	dir := n.File("netclassd")
	d := &Netclassd{
		Node: n, Dir: dir, opts: opts,
		ConfigFile: filepath.Join(dir, "config.yaml"), NodesFile: filepath.Join(dir, "nodes.yaml"),
		Socket: filepath.Join(dir, "run", "netclassd.sock"), StateDir: filepath.Join(dir, "state"),
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("start netclassd on %s: %w", n.Name, err)
	}
	config := opts.Config
	if config == "" {
		var err error
		if config, err = SeedConfig(); err != nil {
			return nil, fmt.Errorf("start netclassd on %s: %w", n.Name, err)
		}
	}
	nodes := opts.Nodes
	if nodes == "" {
		nodes = n.lab.NodesFile()
	}
	if err := errors.Join(d.WriteConfig(config), d.WriteNodes(nodes)); err != nil {
		return nil, fmt.Errorf("start netclassd on %s: %w", n.Name, err)
	}
	return d, nil
}

// Start starts the daemon, again after it was stopped or killed.
func (d *Netclassd) Start() error {
	binary := d.opts.Binary
	if binary == "" {
		binary = Built("netclassd")
	}
	p, err := d.Node.Start(Command{
		Path: binary, Env: d.opts.Env, Dir: d.Dir, Name: "netclassd",
		Args: append([]string{"--config", d.ConfigFile, "--node", d.Node.Name, "--socket", d.Socket, "--state-dir", d.StateDir}, d.opts.Args...),
	})
	if err != nil {
		return err
	}
	d.Process = p
	return nil
}

// Restart stops the daemon with SIGTERM and starts it again.
func (d *Netclassd) Restart() error {
	if err := d.Stop(); err != nil {
		return err
	}
	return d.Start()
}

// Reload sends SIGHUP.
func (d *Netclassd) Reload() error { return d.Signal(syscall.SIGHUP) }

// WriteConfig replaces the configuration file, as one step. It does not reload.
func (d *Netclassd) WriteConfig(text string) error { return replaceFile(d.ConfigFile, text) }

// WriteNodes replaces the nodes file, as one step.
func (d *Netclassd) WriteNodes(text string) error { return replaceFile(d.NodesFile, text) }

func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Ctl runs netclassctl against the daemon and returns what it printed.
func (d *Netclassd) Ctl(ctx context.Context, args ...string) (string, error) {
	return d.Node.Exec(ctx, Built("netclassctl"), append([]string{"--socket", d.Socket}, args...)...)
}

// Built returns the path of a program that `make build` makes: in bin/, or
// where NETCLASS_BIN says.
func Built(name string) string {
	if dir := os.Getenv("NETCLASS_BIN"); dir != "" {
		return filepath.Join(dir, name)
	}
	root, err := root()
	if err != nil {
		return name // in PATH, perhaps
	}
	return filepath.Join(root, "bin", name)
}

// root returns the module's directory, looking upwards from where we are.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find go.mod: not inside the module")
		}
		dir = parent
	}
}

var kubernetesLine = regexp.MustCompile(`(?m)^(\s+)kubernetes: \{.*\}$`)

// SeedConfig returns examples/seed/config.yaml with a nodes file in the place of
// the Kubernetes API.
func SeedConfig() (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(root, "examples", "seed", "config.yaml"))
	if err != nil {
		return "", fmt.Errorf("read the seed's configuration: %w", err)
	}
	if !kubernetesLine.Match(b) {
		return "", errors.New("read the seed's configuration: it has no kubernetes line to replace")
	}
	return WithNodesFile(string(b)), nil
}

// WithNodesFile returns a configuration with a nodes file in the place of the
// Kubernetes API.
func WithNodesFile(config string) string {
	return kubernetesLine.ReplaceAllString(config, "${1}nodesFile: nodes.yaml")
}

// NodesFile returns the nodes file of the lab's nodes, or of some of them, as
// examples/seed/nodes.yaml is written.
func (l *Lab) NodesFile(numbers ...int) string {
	if len(numbers) == 0 {
		for n := range l.Nodes {
			numbers = append(numbers, n+1)
		}
	}
	var b strings.Builder
	b.WriteString("nodes:\n")
	for _, n := range numbers {
		fmt.Fprintf(&b, `  - name: %s
    podCIDRs: ["%s", "%s"]
    internalIPs: ["%s", "%s"]
    annotations:
      net.renner.uno/pod0-v4: "%s"
      net.renner.uno/pod0-v6: "%s"
      net.renner.uno/egress-gw-v4: "%s"
      net.renner.uno/egress-gw-v6: "%s"
`, NodeName(n), podCIDR(n, routing.IPv4), podCIDR(n, routing.IPv6),
			linkPrefix(NodeNet, n, routing.IPv4).Addr(), linkPrefix(NodeNet, n, routing.IPv6).Addr(),
			linkPrefix(PodNet, n, routing.IPv4).Addr(), linkPrefix(PodNet, n, routing.IPv6).Addr(),
			linkPrefix(Ingress, routerNumber, routing.IPv4).Addr(), linkPrefix(Ingress, routerNumber, routing.IPv6).Addr())
	}
	return b.String()
}
