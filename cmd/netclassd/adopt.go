package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/kernel"
)

// protocolNames are the RTPROT numbers that iproute2 has names for and whose
// routes may be taken over (etc/iproute2/rt_protos).
var protocolNames = map[string]routing.Protocol{
	"boot": routing.ProtocolBoot, "static": routing.ProtocolStatic, "gated": 8, "mrt": 10, "zebra": 11, "bird": routing.ProtocolBIRD,
	"dnrouted": 13, "xorp": 14, "ntk": 15, "dhcp": 16, "keepalived": 18, "babel": 42,
	"bgp": 186, "isis": 187, "ospf": 188, "rip": 189, "eigrp": 192,
}

func adopt(cmd *cobra.Command, f *flags, protocol, table string, dry bool) error {
	config, _, err := load(f.config)
	if err != nil {
		return err
	}
	a, err := adoption(config, protocol, table)
	if err != nil {
		return exitError{err, exitUsage}
	}
	if !dry {
		// A running daemon writes the state directory.
		locks, err := lock(f)
		if err != nil {
			return fmt.Errorf("adopt: netclassd must not be running: %w", err)
		}
		defer locks.Close()
	}
	list, err := adopting(config, f, a)
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	printTakeovers(cmd.OutOrStdout(), list)
	if dry || len(list) == 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s of protocol %s in table %s\n", count(len(list), "route"), protocol, table)
		return nil
	}
	if err := engine.RecordAdoption(f.stateDir, a); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s will be taken over when netclassd starts\n", count(len(list), "route"))
	return nil
}

// adoption reads whose routes in which table are meant.
func adoption(c *routing.Config, protocol, table string) (a routing.Adoption, err error) {
	if protocol == "" || table == "" {
		return a, errors.New("adopt: --protocol and --table are needed")
	}
	a.Protocol = protocolNames[strings.ToLower(protocol)]
	if n, err := strconv.ParseUint(protocol, 10, 8); err == nil && routing.Protocol(n) > routing.ProtocolKernel {
		a.Protocol = routing.Protocol(n)
	}
	switch a.Protocol {
	case 0:
		return a, fmt.Errorf("adopt: %q is no protocol whose routes can be taken over", protocol)
	case c.Daemon.Protocol:
		return a, fmt.Errorf("adopt: protocol %d is our own", a.Protocol)
	}
	for i := range c.Tables {
		if t := &c.Tables[i]; t.Name == table || strconv.FormatUint(uint64(t.ID), 10) == table {
			a.Table = t.ID
			return a, nil
		}
	}
	return a, fmt.Errorf("adopt: the configuration has no table %q", table)
}

// adopting asks the planner what becomes of the routes.
func adopting(c *routing.Config, f *flags, a routing.Adoption) ([]engine.Takeover, error) {
	nodes, problems, err := checkNodes(c)
	if err == nil && len(problems.Errors()) > 0 {
		err = problems.Errors()
	}
	if err != nil {
		return nil, err
	}
	if o, ok := originOf(c); ok && o.file == "" {
		// What the daemon knows of them: it keeps a copy.
		nodes = ofKubernetes(o, f.stateDir, slog.New(slog.DiscardHandler)).Inventory().Nodes
	}
	ledger, err := engine.LoadLedger(f.stateDir)
	if err != nil {
		return nil, err
	}
	k, err := kernel.Open(kernel.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	picture, err := k.Dump(ctx)
	if err != nil {
		return nil, err
	}
	return engine.Adopting(routing.Inputs{
		Config: c, Node: f.nodeName(c), Kernel: picture, Ledger: &ledger,
		Inventory: &routing.Inventory{Nodes: nodes, Synced: true},
	}, a), nil
}

func printTakeovers(w io.Writer, list []engine.Takeover) {
	if len(list) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROUTE\tBECOMES")
	for _, o := range list {
		fmt.Fprintf(t, "%s\t%s\n", o.Route, o)
	}
	t.Flush()
}
