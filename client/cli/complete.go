package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"netclass.dev/client"
)

// completeTime bounds what a press of the tab key waits for.
const completeTime = time.Second

// complete makes names known to the shell; a daemon that does not answer has
// none.
func (a *app) complete(list func(context.Context, *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		c, err := client.Dial(a.socket)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Close() }()
		found, _ := list(ctx, c)
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// names lists each name once, in order; what came before an error counts.
func names[T any](all iter.Seq2[T, error], name func(T) string) ([]string, error) {
	var list []string
	for item, err := range all {
		if err != nil {
			return list, err
		}
		if n := name(item); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list, nil
}

// completeFlag completes the value of a flag; one that is repeated is given other
// names each time.
func (a *app) completeFlag(cmd *cobra.Command, flag string, list func(context.Context, *client.Client) ([]string, error)) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return a.complete(list)(cmd, nil, part)
	})
}

// strict makes the commands that cobra adds refuse what they do not know: they would
// show a help and seem to have done their work.
func strict(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = noShell
			for _, shell := range cmd.Commands() {
				if shell.Name() == "powershell" { // not on Linux
					cmd.RemoveCommand(shell)
				}
			}
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, _, err := root.Find(args); len(args) > 0 && (err != nil || found == root) {
					return fmt.Errorf("there is no help on %q; see netclassctl --help", args[0])
				}
				return nil
			}
		}
	}
}

// noShell is the completion of no shell.
func noShell(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var shells []string
	for _, shell := range cmd.Commands() {
		shells = append(shells, shell.Name())
	}
	return fmt.Errorf("completion is for %s, not %q", strings.Join(shells, ", "), args[0])
}
