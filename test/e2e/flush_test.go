package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
)

// leftOf lists what the kernel of a node has of the given protocols.
func (c *cluster) leftOf(n *lab.Node, protocols ...string) []string {
	c.t.Helper()
	var left []string
	for _, family := range []string{"-4", "-6"} {
		rules := c.ip(n, "-N "+family+" rule show")
		for _, p := range protocols {
			for line := range strings.Lines(rules) {
				if strings.HasSuffix(strings.TrimSpace(line), " proto "+p) {
					left = append(left, strings.TrimSpace(line))
				}
			}
			for line := range strings.Lines(c.ip(n, "-N "+family+" route show table all proto "+p)) {
				left = append(left, strings.TrimSpace(line))
			}
		}
	}
	return left
}

// deletions returns the stage of each deletion of ours that a monitor has seen, in
// the order in which they have to be done.
func deletions(m *monitor) (stages []int, lines []string) {
	for _, line := range m.changes() {
		words, deleted := strings.CutPrefix(line, "Deleted ")
		if !deleted {
			continue
		}
		unreachable := strings.HasPrefix(words, "7 ") || strings.HasPrefix(words, "unreachable ") || strings.Contains(words, " 7 ")
		stage := 0 // a rule: "1001:	from …"
		switch {
		case !strings.Contains(strings.Fields(words)[0], ":") || strings.Contains(words, " table ") || strings.Contains(words, " dev ") || strings.Contains(words, " metric "):
			switch {
			case strings.Contains(words, "metric 4294967295"):
				stage = 5
			case unreachable:
				stage = 2
			case strings.HasPrefix(words, "default"):
				stage = 1
			case strings.Contains(words, " via "):
				stage = 3
			default:
				stage = 4
			}
		}
		stages, lines = append(stages, stage), append(lines, line)
	}
	return stages, lines
}

// TestFlush takes everything out under pings at 1 kHz and TCP: what two daemons
// with different tables, priorities and protocol numbers left, none of which could
// clean up behind itself. Nothing is lost, and nothing goes the wrong way between.
func TestFlush(t *testing.T) {
	older, err := os.ReadFile(filepath.Join("..", "..", "examples", "seed", "config-two-tables.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	twoTables := strings.Replace(string(older), "\nnetworks:", "\ndaemon: {protocol: 150}\nnetworks:", 1)
	for name, flushed := range map[string]func(*cluster, *lab.Netclassd){
		"by netclassd flush": func(c *cluster, d *lab.Netclassd) {
			c.must(d.Kill())
			c.must(flush(c, d))
		},
		"by netclassd flush without a configuration": func(c *cluster, d *lab.Netclassd) {
			c.must(d.Kill())
			c.must(os.Remove(d.ConfigFile))
			c.must(flush(c, d))
		},
		"by onExit: flush": func(c *cluster, d *lab.Netclassd) {
			c.must(d.WriteConfig(strings.Replace(mustConfig(t), "\nnetworks:", "\ndaemon: {onExit: flush}\nnetworks:", 1)))
			c.must(d.Reload())
			c.must(d.Stop())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, lab.NetclassdOptions{})
			one, d := c.Node(1), c.daemons[0]
			// From one table to two, and in the midst of the way back.
			c.must(d.Stop())
			c.must(d.WriteConfig(twoTables))
			c.must(d.Start())
			c.within(convergence, "the older tables", func() error {
				// Rules and a default of each family, and two peers'.
				if left := c.leftOf(one, "150"); len(left) != 2*(3+1+2) {
					return fmt.Errorf("the older configuration has only\n%s", strings.Join(left, "\n"))
				}
				return nil
			})
			tr := c.traffic([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
			c.must(d.Kill())
			c.must(d.WriteConfig(mustConfig(t)))
			c.must(d.Start())
			time.Sleep(60 * time.Millisecond)
			m := c.monitor(one)
			flushed(c, d)
			if left := c.leftOf(one, "148", "150"); len(left) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			}
			time.Sleep(200 * time.Millisecond)
			stages, lines := deletions(m)
			t.Logf("%d deletions seen", len(lines))
			// A daemon that runs until then also deletes what is planned no more.
			if !strings.Contains(name, "onExit") && !slices.IsSorted(stages) {
				t.Errorf("deleted in this order:\n%s", strings.Join(lines, "\n"))
			}
			time.Sleep(time.Second)
			tr.stop(0, lab.PodNet, lab.NodeNet)

			c.must(d.WriteConfig(mustConfig(t)))
			c.must(d.Start())
			c.converge()
		})
	}
}

// TestFlushWithoutState flushes what the configuration names when the state cannot
// be read, and says that there may be more.
func TestFlushWithoutState(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, d := c.Node(1), c.daemons[0]
	c.must(d.Kill())
	c.must(os.WriteFile(filepath.Join(d.StateDir, "ledger.json"), []byte("nonsense"), 0o600))
	if err := flush(c, d); err == nil || !strings.Contains(err.Error(), "older configuration") {
		t.Errorf("it says %v", err)
	}
	if left := c.leftOf(one, "148"); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	c.routerSawNothing()
}
