package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
	"netclass.dev/routing/inventory"
)

func check(cmd *cobra.Command, file, node string) error {
	// The daemon waits for a file that is not there yet; somebody who asks for
	// one by name wants to know.
	if _, err := os.Stat(file); err != nil {
		return exitError{fmt.Errorf("check configuration: %w", err), exitConfig}
	}
	config, problems, err := intent.Load(file)
	if err != nil {
		return exitError{err, exitConfig}
	}
	if config == nil && isNodesFile(file) {
		return exitError{fmt.Errorf("%s looks like a nodes file; check the configuration that names it (cluster.nodesFile)", file), exitConfig}
	}
	nodes, faults, err := checkNodes(config)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: note: the nodes file %s is not there yet\n", file, config.Cluster.NodesFile)
	case err != nil:
		return exitError{err, exitConfig}
	}
	problems = append(problems, faults...)
	errs := problems.Errors()
	for _, p := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	if len(errs) > 0 {
		return exitError{fmt.Errorf("%s: %s", file, count(len(errs), "error")), exitConfig}
	}
	for _, path := range passwordFiles(config) {
		if _, err := readPassword(path); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: note: on this machine: %v: sessions that need it would wait\n", file, err)
		}
	}
	if config.Node != "" && node == "" {
		node = config.Node
	}
	warnings := []string(nil)
	if nodes != nil {
		warnings = cross(config, nodes, node)
	}
	for i, w := range warnings {
		if i == mostWarnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: and %d more like these\n", config.Cluster.NodesFile, len(warnings)-i)
			break
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", config.Cluster.NodesFile, w)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok%s\n", file, summary(config, nodes))
	return nil
}

// mostWarnings bounds what is said of the nodes of a large cluster.
const mostWarnings = 100

// isNodesFile reports whether a file that is no configuration has nodes at its top.
func isNodesFile(file string) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	text := "\n" + string(data)
	return strings.Contains(text, "\nnodes:") && !strings.Contains(text, "\napiVersion:")
}

// checkNodes reads the nodes file that a configuration names, if it does.
func checkNodes(c *routing.Config) ([]routing.Node, intent.Problems, error) {
	if c == nil || c.Cluster == nil || c.Cluster.NodesFile == "" {
		return nil, nil, nil
	}
	data, err := os.ReadFile(c.Cluster.NodesFile)
	if err != nil {
		return nil, nil, fmt.Errorf("check nodes file: %w", err)
	}
	nodes, problems := inventory.Parse(c.Cluster.NodesFile, data)
	return nodes, problems, nil
}

func summary(c *routing.Config, nodes []routing.Node) string {
	if c.Idle() {
		return ": it asks for nothing, netclassd would idle"
	}
	s := fmt.Sprintf(": %s, %s", count(len(c.Classes), "class"), count(len(c.Tables), "table"))
	if nodes != nil {
		s += ", " + count(len(nodes), "node")
	}
	return s
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
