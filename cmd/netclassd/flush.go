package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/intent"
	"netclass.dev/routing/kernel"
)

// flushTime bounds a flush; 50,000 routes take well under a second.
const flushTime = time.Minute

func flush(cmd *cobra.Command, f *flags) error {
	if err := kernel.MayRoute(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// A running daemon would put everything back.
	locks, err := lock(f)
	if err != nil {
		return fmt.Errorf("flush: netclassd must not be running: %w", err)
	}
	defer locks.Close()

	own, unknown := owned(cmd, f)
	k, err := kernel.Open(kernel.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer k.Close()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	n, err := engine.Flush(ctx, k, own)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "flushed %s\n", count(n, "object"))
	if left, err := k.Dump(ctx); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "netclassd: warning: not known whether something of ours is left: %v\n", err)
	} else if what := leftover(own, left); what != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "netclassd: warning: the kernel still has %s, which neither the state in %s nor the configuration %s names: if they are netclassd's, run flush with the right --state-dir or --config\n",
			what, f.stateDir, f.config)
	}
	if unknown != nil {
		return fmt.Errorf("flush: what an older configuration left is not known: %w", unknown)
	}
	return nil
}

// leftover says which rules and routes with our protocol numbers a picture of the
// kernel has; "" when there are none.
func leftover(own routing.Ownership, k *routing.Kernel) string {
	protocols := append(slices.Clone(own.Protocols), routing.ProtocolNetclass)
	var tables, priorities []uint32
	routes, rules := 0, 0
	for i := range k.Routes {
		if r := &k.Routes[i]; slices.Contains(protocols, r.Protocol) {
			routes++
			tables = append(tables, uint32(r.Table))
		}
	}
	for i := range k.Rules {
		if r := &k.Rules[i]; slices.Contains(protocols, r.Protocol) {
			rules++
			priorities = append(priorities, r.Priority)
		}
	}
	var parts []string
	if rules > 0 {
		parts = append(parts, fmt.Sprintf("%s at %s", count(rules, "rule"), numbers("priority", "priorities", priorities, func(n uint32) string { return fmt.Sprint(n) })))
	}
	if routes > 0 {
		parts = append(parts, fmt.Sprintf("%s in %s", count(routes, "route"), numbers("table", "tables", tables, func(n uint32) string { return routing.TableID(n).String() })))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, " and ") + " of netclassd's protocol number"
}

// numbers writes "table 47", "tables 47, 48", with not too many of them.
func numbers(one, many string, ns []uint32, name func(uint32) string) string {
	const most = 10
	slices.Sort(ns)
	ns = slices.Compact(ns)
	if len(ns) == 1 {
		return one + " " + name(ns[0])
	}
	var texts []string
	for _, n := range ns[:min(len(ns), most)] {
		texts = append(texts, name(n))
	}
	text := many + " " + strings.Join(texts, ", ")
	if len(ns) > most {
		text += fmt.Sprintf(" and %d more", len(ns)-most)
	}
	return text
}

// owned returns what the state directory and the configuration name as ours. A
// configuration or a state that cannot be used does not keep the flush from what
// is known; the error is the state's.
func owned(cmd *cobra.Command, f *flags) (own routing.Ownership, unknown error) {
	ledger, unknown := engine.LoadLedger(f.stateDir)
	own = routing.Ownership{Protocols: ledger.Protocols, Tables: ledger.Tables, Priorities: ledger.Priorities}
	config, problems, err := intent.Load(f.config)
	if err != nil || config == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "netclassd: the configuration is left out of account: %v\n", unusable(err, problems.Errors()))
		return own, unknown
	}
	return config.Owns(own), unknown
}

func unusable(err error, problems intent.Problems) error {
	if err != nil {
		return err
	}
	return problems
}
