package main

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
	"netclass.dev/test/fakekernel"
)

// TestStartWithoutTables: a file that has lost its tables empties none by a restart.
func TestStartWithoutTables(t *testing.T) {
	dir := t.TempDir()
	f := flags{stateDir: dir, config: "config.yaml"}
	classes := []routing.Class{{Name: "c", Link: "l"}}
	left, empty := fakekernel.New(), fakekernel.New()
	err := errors.Join(left.AddLink("l"), left.AddAddr("l", netip.MustParsePrefix("192.0.2.2/24")),
		left.Foreign(routing.Op{Verb: routing.Add, Route: routing.Route{Table: 47, Dst: netip.MustParsePrefix("10.0.0.0/8"), Link: "l", Protocol: routing.ProtocolNetclass}}),
		os.WriteFile(filepath.Join(dir, "ledger.json"), []byte(`{"version": 1, "protocols": [148], "tables": [47, 254]}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kernel  *fakekernel.Kernel
		config  routing.Config
		refused bool
	}{
		"its routes are there": {left, routing.Config{Classes: classes}, true},
		"no routes":            {empty, routing.Config{Classes: classes}, false},
		"meant so":             {left, routing.Config{Classes: classes, NoTables: true}, false},
		"a table":              {left, routing.Config{Classes: classes, Tables: []routing.Table{{Name: "t", ID: 9}}}, false},
		"idle":                 {left, routing.Config{}, false},
	} {
		err := stranded(t.Context(), test.kernel, f, &test.config)
		e, refused := errors.AsType[exitError](err)
		if refused != test.refused || refused && (e.code != exitConfig || !strings.Contains(err.Error(), "would have table 47 emptied")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReloadOfABeginning: a file that was cut off anywhere empties nothing, and one
// whose end was taken out by hand is taken.
func TestReloadOfABeginning(t *testing.T) {
	const whole = `apiVersion: netclass.dev/v1alpha1
networks: {pods: [10.244.0.0/16]}
tables:
- name: t
  id: 9
  rules: [{from: pods, priority: {ipv4: 1001}}]
  routes:
    connected: [a, b]
  fence: [pods]
guard: {networks: [pods]}
bgp: {asn: 64512, upstreams: [{name: u, link: a, peerASN: 64513, address: {ipv4: 192.0.2.1}}]}
`
	before := []byte(whole)
	inForce, problems := intent.Parse("f", before)
	if len(problems.Errors()) > 0 {
		t.Fatal(problems)
	}
	taken := map[string]bool{}
	for n := range before {
		c, _ := intent.Parse("f", before[:n])
		if c == nil || cutOff(c, inForce) || c.Idle() {
			continue
		}
		if shortened(c, inForce, before[:n], before) == "" {
			taken[whole[n:]] = true
		}
	}
	// What may be meant: the last section is gone, or the last line's end.
	if want := whole[strings.Index(whole, "bgp:"):]; !taken[want] || !taken["\n"] || len(taken) != 2 {
		t.Errorf("taken without: %v", taken)
	}
	if lost := shortened(inForce, inForce, before, before); lost != "" {
		t.Errorf("the whole lacks %s", lost)
	}
	c, _ := intent.Parse("f", []byte("# another\n"+whole[:90]))
	if lost := shortened(c, inForce, []byte("# another\n"+whole[:90]), before); lost != "" {
		t.Errorf("another file lacks %s", lost)
	}
}
