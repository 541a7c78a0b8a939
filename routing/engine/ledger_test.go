package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/test/need"
)

func TestLedgerBeforeFirstChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stateDir = filepath.Join(r.stateDir, "made", "when", "absent")
		r.make()
		first := true
		r.kernel.onApply = func([]routing.Op) []error {
			if first {
				first = false
				l, err := engine.LoadLedger(r.stateDir)
				if err != nil || !slices.Contains(l.Tables, 47) || !slices.Contains(l.Tables, routing.MainID) ||
					!slices.Contains(l.Priorities, 1000) || !slices.Contains(l.Priorities, 1003) || !slices.Contains(l.Protocols, 148) {
					t.Errorf("at the first change the ledger is %+v, %v", l, err)
				}
			}
			return nil
		}
		r.start(seedConfig(t))
		if first {
			t.Error("nothing was changed")
		}
		files, err := os.ReadDir(r.stateDir)
		if err != nil || len(files) != 1 {
			t.Errorf("state directory holds %v, %v", files, err)
		}
	})
}

// TestLedgerOutlivesRestart: what an older configuration left is removed by a
// run that was never told of it.
func TestLedgerOutlivesRestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.end()
		r.make()
		r.start(seedConfig(t, "id: 47", "id: 48", "ipv6: 1000, ipv4: 1001", "ipv6: 1100, ipv4: 1101"))
		r.wait(15 * time.Second)
		if text := r.kernel.text(); strings.Contains(text, "47 ") && strings.Contains(text, "table 47") || strings.Contains(text, "1001:") {
			t.Errorf("left:\n%s", text)
		}
	})
}

// TestLinkNetworksRemembered: fence and guard of a link that has lost its
// addresses stay, also through a restart.
func TestLinkNetworksRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		guarded := func() bool {
			return r.kernel.has(func(rt routing.Route) bool {
				return rt.Dst.String() == "fd00:48::/64" && rt.Metric == routing.MetricGuard
			}) &&
				r.kernel.has(func(rt routing.Route) bool {
					return rt.Dst.String() == "fd00:48::/64" && rt.Metric == routing.MetricFence
				})
		}
		r.kernel.SetUp("pod0", false)
		r.wait(200 * time.Millisecond)
		if !guarded() {
			t.Error("fence or guard fell with the link")
		}
		r.end()
		r.make()
		r.start(seedConfig(t))
		r.wait(20 * time.Second)
		if !guarded() {
			t.Error("fence or guard fell with the restart")
		}
	})
}

func TestStateDirectoryNotWritable(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		// A file in the folder's place refuses also root.
		r.stateDir = filepath.Join(r.stateDir, "state")
		if err := os.WriteFile(r.stateDir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.make()
		r.start(seedConfig(t))
		r.establish("k8s-2", "k8s-3")
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, true, "without a state directory")
		c := r.condition("state", "NotSaved")
		if c == nil || r.state().Health != routing.Degraded {
			t.Fatalf("conditions %v", r.state().Conditions)
		}
		r.wait(2 * time.Minute)
		if later := r.condition("state", "NotSaved"); later == nil || !later.Since.Equal(c.Since) {
			t.Errorf("the condition is dated %v, then %v", c, later)
		}
		if got := strings.Count(r.log.String(), "reason=NotSaved"); got != 1 {
			t.Errorf("logged %d times", got)
		}
		if err := os.Remove(r.stateDir); err != nil {
			t.Fatal(err)
		}
		r.engine.Look()
		r.wait(time.Second)
		if l, err := engine.LoadLedger(r.stateDir); err != nil || len(l.Tables) != 2 || r.condition("state", "") != nil {
			t.Errorf("healed: %+v, %v", l, err)
		}
	})
}

// TestFullDisk: the temporary file's name is not part of what is said, so that
// the condition is the same each time.
func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		// A folder under the new file's name refuses to be written, also for root.
		if err := os.Mkdir(filepath.Join(r.stateDir, "ledger.json.new"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.stateDir, "ledger.json.new", "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.start(seedConfig(t))
		r.wait(time.Minute)
		if got := strings.Count(r.log.String(), "reason=NotSaved"); got != 1 {
			t.Errorf("logged %d times:\n%s", got, r.log)
		}
	})
}

func TestCorruptLedger(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut": `{"version": 1, "tables": [4`, "other version": `{"version": 9}`,
		"text": "tables: [47]", "protocol": `{"version": 1, "protocols": [999]}`,
		"kernel's protocol": `{"version": 1, "protocols": [2], "tables": [254, 255]}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if err := os.WriteFile(filepath.Join(r.stateDir, "ledger.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				r.converge()
				if !strings.Contains(r.log.String(), "state not read") {
					t.Errorf("no warning:\n%s", r.log)
				}
				if !r.kernel.has(func(rt routing.Route) bool {
					return rt.Table == routing.MainID && rt.Dst.String() == "10.40.0.0/24" && rt.Protocol == routing.ProtocolKernel
				}) {
					t.Error("a route of the kernel's was deleted")
				}
				if l, err := engine.LoadLedger(r.stateDir); err != nil || len(l.Tables) != 2 {
					t.Errorf("afterwards %+v, %v", l, err)
				}
			})
		})
	}
}

// TestHoldersRemembered: who had a contested pod CIDR is known after a restart
// with an empty kernel.
func TestHoldersRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		nodes := seedNodes(t)
		contested := routePrefix("10.244.3.0/24")
		r.converge()
		nodes[1].PodCIDRs = append(nodes[1].PodCIDRs, contested)
		r.setNodes(nodes...)
		r.engine.Look()
		r.wait(time.Second)
		holder := func() bool {
			return r.kernel.has(func(rt routing.Route) bool { return rt.Dst == contested && rt.Via.String() == "10.46.0.3" })
		}
		if !holder() {
			t.Fatal("the newcomer took it")
		}
		r.end()
		r.kernel.foreign(routing.Delete, r.kernel.ours()...)
		r.make()
		r.start(seedConfig(t))
		if !holder() {
			t.Error("the newcomer took it after a restart")
		}
	})
}

// TestLedgerOfAnotherUser: what a command of root's writes belongs to the user that
// the daemon runs as, whose the folder is.
func TestLedgerOfAnotherUser(t *testing.T) {
	need.Root(t)
	const nobody = 65534
	dir := t.TempDir()
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := engine.RecordAdoption(dir, routing.Adoption{Protocol: routing.ProtocolBIRD, Table: 47}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("state directory holds %v, %v", files, err)
	}
	info, err := files[0].Info()
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != nobody || st.Gid != nobody || info.Mode().Perm() != 0o600 {
		t.Errorf("%s is %d:%d's with mode %v", info.Name(), st.Uid, st.Gid, info.Mode())
	}
}
