package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// claimWait is how long a daemon waits for one that may be ending.
const claimWait = 2 * time.Second

// TestSecondDaemon starts another daemon beside a running one, and one on the
// socket that a killed one left.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	args := []string{"--config", c.d.ConfigFile, "--node", c.one.Name, "--socket", c.d.Socket, "--state-dir", c.d.StateDir}
	c.pings(func() {
		c.inject(1, "a second daemon")
		out, err := c.one.Exec(t.Context(), lab.Built("netclassd"), args...)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another netclassd (pid %d) holds it", c.d.PID())) {
			c.broken("the second daemon said %q, %v", out, err)
		}
		// Nor with files of its own, in whatever container: the kernel is the same.
		own := []string{"--config", c.d.ConfigFile, "--node", c.one.Name, "--socket", t.TempDir() + "/n.sock", "--state-dir", t.TempDir()}
		for _, command := range [][]string{nil, {"flush"}, {"adopt", "--protocol=bird", "--table=47"}} {
			out, err := c.one.Exec(t.Context(), lab.Built("netclassd"), append(own, command...)...)
			if want := fmt.Sprintf("claim the network namespace: another netclassd (pid %d) holds it", c.d.PID()); err == nil || !strings.Contains(err.Error(), want) {
				c.broken("netclassd %q with other files said %q, %v", command, out, err)
			}
		}
		if _, err := c.status(); err != nil {
			c.broken("the first no longer answers: %v", err)
		}
		c.unchanged("a second daemon", want)

		c.inject(1, "a stale socket")
		c.must(c.d.Kill())
		if _, err := os.Stat(c.d.Socket); err != nil {
			t.Fatalf("no stale socket: %v", err)
		}
		c.must(c.d.Start())
		c.within(repair, "an answer", func() error { _, err := c.status(); return err })
		c.converge()
		c.unchanged("a stale socket", want)

		c.inject(2, "two daemons start at once on a stale socket")
		c.must(c.d.Kill())
		var rivals []*lab.Process
		for i := range 2 {
			p, err := c.one.Start(lab.Command{Path: lab.Built("netclassd"), Args: args, Name: fmt.Sprintf("rival-%d", i)})
			c.must(err)
			rivals = append(rivals, p)
		}
		c.within(claimWait+repair, "one of them to refuse", func() error {
			if rivals[0].Running() == rivals[1].Running() {
				return fmt.Errorf("running: %v %v", rivals[0].Running(), rivals[1].Running())
			}
			return nil
		})
		for _, p := range rivals {
			if p.Running() {
				c.d.Process = p
			}
		}
		c.converge()
		c.unchanged("two daemons at once", want)
	})
}

// TestUnprivileged starts the daemon without the one capability that it cannot do
// without: it says so and ends, with a configuration or none.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	c := bare(t, 1)
	need.Program(t, "setpriv")
	config := filepath.Join(t.TempDir(), "config.yaml")
	for _, text := range []string{"", "apiVersion: netclass.dev/v1alpha1\ntables: [{name: t, id: 9}]\n"} {
		c.must(os.WriteFile(config, []byte(text), 0o644))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		for _, command := range []string{"", "flush"} {
			out, err := c.Node(1).Exec(ctx, "setpriv", append(strings.Fields("--bounding-set=-net_admin "+lab.Built("netclassd")+" "+command),
				"--config", config, "--socket", t.TempDir()+"/n.sock", "--state-dir", t.TempDir())...)
			if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "the capability CAP_NET_ADMIN is missing") {
				t.Errorf("configuration %q, command %q: %q, %v", text, command, out, err)
			}
		}
		cancel()
	}
}
