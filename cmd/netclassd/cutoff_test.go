package main

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
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
