package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// A file that an editor or a copy has cut off between two keys is valid, and asks for
// less. Without its tables it would have everything taken out, so that it must say
// that it wants none: `tables: []`. And one that is the beginning of what is in force,
// and ends within a line or without several sections, was hardly meant so.

// cutOff reports whether a configuration lacks the tables that another one has,
// without a word.
func cutOff(c, inForce *routing.Config) bool {
	return inForce != nil && len(inForce.Tables) > 0 && len(c.Tables) == 0 && !c.NoTables
}

// lacksTables is the fault of a configuration that was cut off.
func lacksTables(path string, tables []string) error {
	return &routing.Invalid{Problems: []routing.Problem{{
		File: path,
		Message: fmt.Sprintf("it has no tables any more, and would have %s emptied: if it was not cut off and that is meant, write tables: []",
			strings.Join(tables, ", ")),
	}}}
}

// shortened says what a file lacks that is the beginning of the one in force and seems
// to have been cut off; "" when it does not.
func shortened(c, inForce *routing.Config, text, before []byte) string {
	if inForce == nil || len(text) >= len(before) || !bytes.HasPrefix(before, text) {
		return ""
	}
	var lost []string
	for i := range inForce.Tables {
		was := &inForce.Tables[i]
		if t := c.Table(was.Name); t == nil || sources(t) < sources(was) {
			lost = append(lost, "what table "+was.Name+" had")
		}
	}
	for _, section := range []struct {
		name     string
		was, has bool
	}{
		{"guard", inForce.Guard != nil, c.Guard != nil}, {"cluster", inForce.Cluster != nil, c.Cluster != nil}, {"bgp", inForce.BGP != nil, c.BGP != nil},
	} {
		if section.was && !section.has {
			lost = append(lost, section.name)
		}
	}
	if len(lost) == 0 || len(lost) == 1 && bytes.HasSuffix(text, []byte("\n")) {
		return ""
	}
	return strings.Join(lost, ", ")
}

// sources counts what a table is filled from, its rules and its fence.
func sources(t *routing.Table) int {
	n := len(t.Rules) + len(t.Fence) + len(t.Routes.Connected)
	for _, given := range []bool{t.Routes.Own != nil, t.Routes.Peers != nil, t.Routes.Default != nil} {
		if given {
			n++
		}
	}
	return n
}

// wasCut is the fault of a file that is only the beginning of the one in force.
func wasCut(path, lost string) error {
	return &routing.Invalid{Problems: []routing.Problem{{
		File: path, Message: "it is the beginning of what is in force, without " + lost + ": if it was not cut off and that is meant, change something else in it too, such as a comment",
	}}}
}

func tablesOf(c *routing.Config) []string {
	var names []string
	for i := range c.Tables {
		names = append(names, c.Tables[i].Name)
	}
	return names
}

// dumper reads the kernel.
type dumper interface {
	Dump(context.Context) (*routing.Kernel, error)
}

// stranded refuses to start with a configuration that has no tables where the kernel
// has routes in those of an earlier one. What cannot be read keeps nobody from
// starting.
func stranded(ctx context.Context, k dumper, f flags, c *routing.Config) error {
	if c.Idle() || len(c.Tables) > 0 || c.NoTables {
		return nil
	}
	ledger, err := engine.LoadLedger(f.stateDir)
	if err != nil || !slices.ContainsFunc(ledger.Tables, func(id routing.TableID) bool { return id != routing.MainID }) {
		return nil
	}
	picture, err := k.Dump(ctx)
	if err != nil {
		return nil
	}
	own := routing.Ownership{Protocols: ledger.Protocols, Tables: ledger.Tables}
	var left []string
	for i := range picture.Routes {
		if r := &picture.Routes[i]; r.Table != routing.MainID && own.HasRoute(r) && !slices.Contains(left, r.Table.String()) {
			left = append(left, r.Table.String())
		}
	}
	if len(left) == 0 {
		return nil
	}
	for i := range left {
		left[i] = "table " + left[i]
	}
	return exitError{lacksTables(f.config, left), exitConfig}
}
