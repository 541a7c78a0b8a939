// Package cli is netclassctl: its commands, and how they print what the daemon
// answers.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/version"
)

// Exit codes, which scripts rely on.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitDegraded = 3 // only from commands that judge
	exitNotFound = 4
	exitTimeout  = 5
)

// Env is what the outside gives a run.
type Env struct {
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	// Width is the terminal's that Out is; 0: it is none, and nothing is coloured,
	// shortened or summed up.
	Width int
}

// System is the real outside.
func System() Env {
	env := Env{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		env.Width = 80
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			env.Width = width
		}
	}
	return env
}

// Main runs netclassctl and returns its exit code.
func Main(args []string, env Env) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{env: env}
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && !errors.As(err, new(exitWith)) && !errors.Is(err, errRefused) {
		return exitOK // Ctrl-C is how a watch ends
	}
	return a.report(err)
}

// app is one run.
type app struct {
	env Env

	// Flags.
	socket     string
	timeout    time.Duration
	format     format
	noHeaders  bool
	ipv4, ipv6 bool
}

// Commands returns the tree of commands, for who writes manual pages from it.
func Commands(env Env) *cobra.Command {
	a := &app{env: env}
	return a.root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "netclassctl",
		Short: "Ask netclassd about this node's traffic classes, tables, rules and BGP sessions",
		Long: `netclassctl asks the netclassd of this node.

Exit codes: 0 answered, 1 error, 2 usage, 3 degraded or broken (status, health,
verify, explain), 4 not found, 5 timed out.

-o json and yaml print what the API answers, in protobuf's JSON: nothing is left
out, absent parts are null, 64-bit numbers are strings, and durations are as
"1.5s".`,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q%s; see netclassctl --help", args[0], didYouMean(cmd.SuggestionsFor(args[0])))
			}
			return cmd.Help()
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return errors.New(strconvError.ReplaceAllString(err.Error(), "must be true or false"))
	})
	root.SetUsageTemplate(strings.NewReplacer("Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 ",
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`, `{{.CommandPath}} COMMAND --help says more about a command.`).Replace(root.UsageTemplate()))
	socket := a.env.Getenv("NETCLASSD_SOCKET")
	if socket == "" {
		socket = client.DefaultSocket
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.socket, "socket", socket, "netclassd's socket, a `PATH` (or NETCLASSD_SOCKET)")
	a.timeout = 5 * time.Second
	flags.Var((*length)(&a.timeout), "timeout", "how long to wait for the answer; 0: for ever")
	flags.VarP(&a.format, "output", "o", "table, wide, json or yaml")
	flags.BoolVar(&a.noHeaders, "no-headers", false, "print no column headers")
	flags.BoolVarP(&a.ipv4, "ipv4", "4", false, "only IPv4, where families can be told apart")
	flags.BoolVarP(&a.ipv6, "ipv6", "6", false, "only IPv6, where families can be told apart")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(a.status(), a.health(), a.classes(), a.table(), a.rules(), a.peers(), a.nodes(), a.plan(), a.watch(), a.explain(), a.verify(), a.drain(), a.undrain(), a.reload(), a.version())
	root.SetOut(a.env.Out)
	root.SetErr(a.env.Err)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // files are meant nowhere but here:
	_ = root.RegisterFlagCompletionFunc("socket", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	strict(root)
	return root
}

// strconvError is what the flags package says of a switch's value.
var strconvError = regexp.MustCompile(`strconv\.ParseBool: .*$`)

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", names[0])
}

// family is the filter that -4 and -6 make: both of them are none.
func (a *app) family() pb.Family {
	switch {
	case a.ipv4 && !a.ipv6:
		return pb.Family_FAMILY_IPV4
	case a.ipv6 && !a.ipv4:
		return pb.Family_FAMILY_IPV6
	}
	return pb.Family_FAMILY_UNSPECIFIED
}

// runError marks the errors of a command that was started: any other is one of
// usage.
type runError struct{ err error }

func (e runError) Error() string { return e.err.Error() }
func (e runError) Unwrap() error { return e.err }

// errDegraded makes a command that has printed everything end with exitDegraded.
var errDegraded = errors.New("degraded")

// ask wraps the body of a command: it is given a client and, unless the command
// goes on for ever, a context with the timeout.
func (a *app) ask(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.askLong(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := a.limit(ctx)
		defer cancel()
		return body(ctx, c, args)
	})
}

func (a *app) askLong(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.timeout < 0 {
			return errors.New("--timeout must not be negative")
		}
		c, err := client.Dial(a.socket)
		if err == nil {
			defer func() { _ = c.Close() }()
			err = body(cmd.Context(), c, args)
		}
		if err != nil {
			return runError{err}
		}
		return nil
	}
}

func (a *app) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.timeout)
}

// one is the error of a command that takes at most one argument.
func one(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes at most one name, not %d", cmd.Name(), len(args))
	}
	if len(args) == 1 && args[0] == "" {
		return fmt.Errorf("%s: the name is empty", cmd.Name())
	}
	return nil
}

// none is the error of a command that takes no argument.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument, not %q", cmd.Name(), args[0])
	}
	return nil
}
