package main

import (
	"github.com/spf13/cobra"

	"netclass.dev/routing/bgp"
)

// speakerCommand is how the daemon starts its BGP speaker: a process of its own,
// so that what a peer can do to it costs no route.
func speakerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "speaker",
		Short:  "Talk BGP for a netclassd (started by it)",
		Hidden: true,
		Args:   usage(cobra.NoArgs),
		RunE:   func(*cobra.Command, []string) error { return bgp.Main() },
	}
}
