package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// A file that an editor or a copy has cut off between two keys is valid, and asks for
// less. Without its tables it would have everything taken out, so that it must say
// that it wants none: `tables: []`.

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
