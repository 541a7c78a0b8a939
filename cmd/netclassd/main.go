// Command netclassd owns the routing rules, routing tables and BGP sessions of
// a node, so that every class of traffic uses its own link.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/version"
)

// Exit codes beside 0 and 1. exitConfig is sysexits.h's EX_CONFIG: a service
// manager that knows it does not restart us into the same mistake.
const (
	exitUsage  = 2
	exitConfig = 78
)

// exitError is an error that asks for an exit code.
type exitError struct {
	error
	code int
}

func main() {
	err := command().Execute()
	if err == nil {
		return
	}
	code := 1
	if e, ok := errors.AsType[exitError](err); ok {
		code = e.code
	}
	fmt.Fprintf(os.Stderr, "netclassd: %v\n", err)
	os.Exit(code)
}

// flags are what every command of the daemon may need.
type flags struct {
	config, node, socket, stateDir string
}

func command() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "netclassd",
		Short: "Keep every class of a node's traffic on its own link",
		Long: `netclassd owns the routing rules, routing tables and BGP sessions of a node,
so that every class of traffic uses its own link and no cluster traffic ever
reaches the upstream router. It runs in the foreground and logs to stderr.

SIGHUP reloads the configuration; a bad one is refused and the last good one
stays. SIGTERM ends it; what becomes of the kernel's routes is daemon.onExit.`,
		Version:       version.String(),
		Args:          usage(cobra.NoArgs),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(*cobra.Command, []string) error { return run(f) },
	}
	p := root.PersistentFlags()
	p.StringVar(&f.config, "config", "/etc/netclassd/config.yaml", "the configuration `FILE`; a missing one is waited for")
	p.StringVar(&f.socket, "socket", "/run/netclassd/netclassd.sock", "the `PATH` of the socket that netclassctl talks to")
	p.StringVar(&f.stateDir, "state-dir", "/var/lib/netclassd", "the `DIR` for what must not be forgotten")
	p.StringVar(&f.node, "node", "", "this node's `NAME` (default: the configuration's, $NODE_NAME, then the lower-case hostname)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{err, exitUsage} })
	root.AddCommand(checkCommand(&f), flushCommand(&f), adoptCommand(&f), speakerCommand(), versionCommand())
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 "))
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "netclassd %s\n", version.String())
			return err
		},
	}
}

// usage makes the error of an argument check a usage error.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return exitError{err, exitUsage}
		}
		return nil
	}
}
