// Command netclassd owns the routing rules, routing tables and BGP sessions of
// a node, so that every class of traffic uses its own link.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"netclass.dev/cmd/netclassd/commands"
	"netclass.dev/routing/bgp"
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
	} else if _, ok := errors.AsType[commands.UsageError](err); ok {
		code = exitUsage
	}
	fmt.Fprintf(os.Stderr, "netclassd: %v\n", err)
	os.Exit(code)
}

// flags are what every command of the daemon may need.
type flags struct {
	config, node, socket, stateDir string
}

func flagsOf(f commands.Flags) *flags {
	return &flags{config: f.Config, node: f.Node, socket: f.Socket, stateDir: f.StateDir}
}

func command() *cobra.Command {
	return commands.New(commands.Actions{
		Run: func(f commands.Flags) error { return run(*flagsOf(f)) },
		Check: func(cmd *cobra.Command, f commands.Flags, file string) error {
			return check(cmd, file, f.Node)
		},
		Flush: func(cmd *cobra.Command, f commands.Flags) error { return flush(cmd, flagsOf(f)) },
		Adopt: func(cmd *cobra.Command, f commands.Flags, a commands.Adoption) error {
			return adopt(cmd, flagsOf(f), a.Protocol, a.Table, a.DryRun)
		},
		Speaker: bgp.Main,
	})
}
