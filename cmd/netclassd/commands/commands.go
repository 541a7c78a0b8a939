// Package commands is netclassd's command line: its commands, their flags and
// what they say of themselves. What they do is given to it, so that manual pages
// and completions can be made without the daemon.
package commands

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/version"
)

// Flags are what every command of the daemon may need.
type Flags struct {
	Config, Node, Socket, StateDir string
}

// Actions are what the commands do.
type Actions struct {
	Run     func(f Flags) error
	Check   func(cmd *cobra.Command, f Flags, file string) error
	Flush   func(cmd *cobra.Command, f Flags) error
	Adopt   func(cmd *cobra.Command, f Flags, a Adoption) error
	Speaker func() error
}

// Adoption says whose routes in which table are to be taken over.
type Adoption struct {
	Protocol, Table string // names or numbers
	DryRun          bool
}

// UsageError is an error in how a command was called.
type UsageError struct{ error }

// New returns the tree of commands.
func New(act Actions) *cobra.Command {
	var f Flags
	root := &cobra.Command{
		Use:   "netclassd",
		Short: "Keep every class of a node's traffic on its own link",
		Long: `netclassd owns the routing rules, routing tables and BGP sessions of a node,
so that every class of traffic uses its own link and no cluster traffic ever
reaches the upstream router. It runs in the foreground and logs to stderr, or
to the journal where systemd has started it. It needs CAP_NET_ADMIN, and there
is one in a network namespace: another refuses to start.

SIGHUP reloads the configuration; a bad one is refused and the last good one
stays. SIGTERM ends it; what becomes of the kernel's routes is daemon.onExit.

Exit codes: 0 ended as it was told to, 1 error, 2 usage, 78 the configuration
cannot be used.`,
		Version:       version.String(),
		Args:          usage(known),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(*cobra.Command, []string) error { return act.Run(f) },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	asking := []*cobra.Command{check(&f, act), flush(&f, act), adopt(&f, act)}
	for _, c := range append(asking, root) {
		f.add(c)
	}
	root.AddCommand(asking...)
	root.AddCommand(speaker(act), versionCommand())
	root.SetUsageTemplate(strings.NewReplacer("Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 ",
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`, `{{.CommandPath}} COMMAND --help says more about a command.`).Replace(root.UsageTemplate()))
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	shells(root)
	return root
}

// add gives a command the flags. They are no inherited ones, which those that need
// none would show too.
func (f *Flags) add(c *cobra.Command) {
	p := c.Flags()
	p.StringVar(&f.Config, "config", "/etc/netclassd/config.yaml", "the configuration `FILE`; a missing one is waited for")
	p.StringVar(&f.Socket, "socket", "/run/netclassd/netclassd.sock", "the `PATH` of the socket that netclassctl talks to")
	p.StringVar(&f.StateDir, "state-dir", "/var/lib/netclassd", "the `DIR` for what must not be forgotten")
	p.StringVar(&f.Node, "node", "", "this node's `NAME` (default: the configuration's, $NODE_NAME, then the lower-case hostname)")
	_ = c.MarkFlagDirname("state-dir")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	_ = c.RegisterFlagCompletionFunc("socket", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
}

// shells leaves the completions that there is a use for on Linux.
func shells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		for _, shell := range c.Commands() {
			if shell.Name() == "powershell" {
				c.RemoveCommand(shell)
			}
		}
	}
}

func check(f *Flags, act Actions) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration without using it",
		Long: `check reads a configuration, that of --config where no file is given, and the
nodes file that it names, and prints every fault at once, each with its line
and column, and what of the one hardly fits the other. With --node it looks at
that node's needs too. It needs no privileges and changes nothing.

Exit codes: 0 usable (there may be warnings), 2 usage, 78 not usable.`,
		Args: usage(func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("check takes one file, not %d", len(args))
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return act.Check(cmd, *f, append(args, f.Config)[0])
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
	}
}

func flush(f *Flags, act Actions) *cobra.Command {
	return &cobra.Command{
		Use:   "flush",
		Short: "Take everything of netclassd's out of the kernel",
		Long: `flush takes every rule and route of netclassd's out of the kernel, in the order
that never sends a packet the wrong way, also what an older configuration left
in other tables. Traffic is unseparated afterwards: pod egress moves to main's
default, which resets masqueraded connections. It refuses while netclassd runs.`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return act.Flush(cmd, *f) },
	}
}

func adopt(f *Flags, act Actions) *cobra.Command {
	var a Adoption
	c := &cobra.Command{
		Use:   "adopt --protocol NAME --table NAME",
		Short: "Take over the routes that another daemon has in a table of ours",
		Long: `adopt shows what becomes of each route of another protocol in a table of ours,
and has the next start of netclassd take them over: what is planned is in
before the other's route goes, or takes its place in one step, and nothing is
removed before the nodes are known. It is done once: routes that come back
afterwards are the other's again.

To replace BIRD:

    netclassd adopt --protocol bird --table pods --dry-run
    netclassd adopt --protocol bird --table pods
    systemctl start netclassd
    systemctl stop bird

BIRD may be ended first if its routes stay: by "birdc graceful restart" or by
SIGKILL, not by a plain stop. Until BIRD has ended it has the sessions, and
peers know this node from it. Nodes that still run BIRD by hand lose their
routes to this one while the sessions change hands, unless both sides have
"graceful restart" configured, or a netclassd with "learn: nodes" runs beside
each of those BIRDs: docs/migrate-from-bird.md changes a cluster over that way
without a lost packet.`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return act.Adopt(cmd, *f, a) },
	}
	c.Flags().StringVar(&a.Protocol, "protocol", "", "whose routes: the protocol's `NAME` or number, as ip route shows it")
	c.Flags().StringVar(&a.Table, "table", "", "in which table: its `NAME` in the configuration, or its number")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "only show what would become of them")
	_ = c.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"bird", "zebra", "static"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// speaker is how the daemon starts its BGP speaker: a process of its own, so that
// what a peer can do to it costs no route.
func speaker(act Actions) *cobra.Command {
	return &cobra.Command{
		Use:    "speaker",
		Short:  "Talk BGP for a netclassd, which starts this itself: it is of no use by hand",
		Hidden: true,
		Args:   usage(cobra.NoArgs),
		RunE:   func(*cobra.Command, []string) error { return act.Speaker() },
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Long:  `Show the version. A package's version is the same, or ends in it.`,
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "netclassd %s\n", version.String())
			return err
		},
	}
}

// known refuses what is no command, with what may be meant.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		meant = fmt.Sprintf(" (did you mean %q?)", names[0])
	}
	return fmt.Errorf("unknown command %q%s; see netclassd --help", args[0], meant)
}

// usage makes the error of an argument check a usage error.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return UsageError{err}
		}
		return nil
	}
}
