package migrate

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"netclass.dev/test/lab"
)

// patience is how long a command may take until it prints what the guide says: a
// person would look again.
const patience = 30 * time.Second

// node is a node of the cluster that is changed over.
type node struct {
	*lab.Node
	bird *lab.BIRD
	d    *lab.Netclassd
}

// service is what the guide has the service manager do.
func (n *node) service(line string) (known bool, err error) {
	switch line {
	case "systemctl start netclassd":
		if n.d.Process != nil && n.d.Running() {
			return true, nil
		}
		return true, n.d.Start()
	case "systemctl stop netclassd":
		return true, n.d.Stop()
	case "systemctl stop bird":
		return true, n.bird.Stop()
	case "systemctl start bird":
		return true, n.bird.Start()
	}
	return false, nil
}

// talosPause is how long Talos waits before it starts a service again.
const talosPause = 5 * time.Second

// startedAnew is how Talos has netclassd take up a configuration.
func (n *node) startedAnew() error {
	if err := n.d.Stop(); err != nil {
		return err
	}
	time.Sleep(talosPause)
	return n.d.Start()
}

// programs are what the guide runs in the node's own network namespace.
var programs = map[string]bool{"netclassd": true, "netclassctl": true, "ip": true, "sysctl": true, "sed": true, "cp": true, "birdc": true, "ss": true}

// preamble lets the guide's commands find the lab's files in the place of the
// packages'.
const preamble = `PATH=%[1]s:/usr/sbin:/usr/bin:/sbin:/bin
NETCLASSD_SOCKET=%[2]s; export NETCLASSD_SOCKET
netclassd() { command netclassd --config %[3]s --socket %[2]s --state-dir %[4]s --node %[5]s "$@"; }
birdc() { command birdc -s %[6]s "$@"; }
`

// run runs one command line of the guide on the node and returns what it printed,
// with both outputs as on a terminal.
func (n *node) run(ctx context.Context, line string) (string, error) {
	if known, err := n.service(line); known {
		return "", err
	}
	if !programs[strings.Fields(line)[0]] {
		return "", fmt.Errorf("the lab does not know how to run %q", line)
	}
	places := strings.NewReplacer("/etc/netclassd", n.d.Dir, "/var/lib/netclassd", n.d.StateDir)
	script := fmt.Sprintf(preamble, filepath.Dir(lab.Built("netclassd")), n.d.Socket, n.d.ConfigFile, n.d.StateDir, n.Name, n.bird.Control) + "{ " + places.Replace(line) + "\n} 2>&1"
	out, err := n.Exec(ctx, "/bin/sh", "-c", script)
	back := strings.NewReplacer(n.d.Socket, "/run/netclassd/netclassd.sock", n.d.StateDir, "/var/lib/netclassd", n.d.Dir, "/etc/netclassd")
	return back.Replace(out), err
}

// shows runs a command line until it prints what the guide says.
func (n *node) shows(ctx context.Context, c command) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return lab.Eventually(limit, func() error {
		out, err := n.run(ctx, c.line)
		if !ended(err) {
			return err
		}
		if got, want := alike(out), alike(c.output); got != want {
			return fmt.Errorf("on %s, $ %s\n%s\nthe guide says\n%s", n.Name, c.line, got, want)
		}
		return nil
	})
}

// succeeds runs a command line that looks until it ends with 0.
func (n *node) succeeds(ctx context.Context, line string) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return lab.Eventually(limit, func() error {
		out, err := n.run(ctx, line)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// ended reports whether a program ran to its end, with whatever code: what it
// printed then says more.
func ended(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit) && exit.Exited()
}

// looks tells the commands that only look, and so may be run again, from those
// that do something.
var looks = regexp.MustCompile(`^(netclassctl (status|classes|peers|verify|table|rules|explain)|netclassd check|netclassd adopt .*--dry-run|birdc show|ip .*(show|get)|sysctl|ss)\b`)
