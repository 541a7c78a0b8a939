package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
	"netclass.dev/routing/inventory"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration without using it",
		Long: `check reads a configuration, and the nodes file that it names, and prints every
fault at once, each with its line and column. It needs no privileges and changes
nothing. Exit codes: 0 usable (there may be warnings), 78 not usable.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return check(cmd, args[0]) },
	}
}

func check(cmd *cobra.Command, file string) error {
	// The daemon waits for a file that is not there yet; somebody who asks for
	// one by name wants to know.
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("check configuration: %w", err)
	}
	config, problems, err := intent.Load(file)
	if err != nil {
		return err
	}
	errs := problems.Errors()
	if config != nil && config.Cluster != nil && config.Cluster.NodesFile != "" {
		nodes, faults, err := inventory.LoadFile(config.Cluster.NodesFile)
		switch {
		case os.IsNotExist(err):
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: note: the nodes file %s is not there yet\n", file, config.Cluster.NodesFile)
		case err != nil:
			return err
		default:
			errs = append(errs, faults.Errors()...)
			problems = append(problems, faults...)
			defer func(n int) {
				if len(errs) == 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes\n", config.Cluster.NodesFile, n)
				}
			}(len(nodes))
		}
	}
	for _, p := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	if len(errs) > 0 {
		return exitError{fmt.Errorf("%s: %s", file, count(len(errs), "error")), exitConfig}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok%s\n", file, summary(config))
	return nil
}

func summary(c *routing.Config) string {
	if c.Idle() {
		return ": it asks for nothing, netclassd would idle"
	}
	return fmt.Sprintf(": %s, %s", count(len(c.Classes), "class"), count(len(c.Tables), "table"))
}

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun[len(noun)-1] == 's':
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
