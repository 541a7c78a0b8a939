package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) drain() *cobra.Command {
	req := &pb.DrainNodeRequest{}
	var grace, wait length
	cmd := &cobra.Command{
		Use:   "drain [NODE]",
		Short: "Take a node's class traffic off it, and wait until that is done",
		Long: `Take a node's class traffic off it, this node's unless one is named, and show
how far that has come: what it costs, each step, and while the links are watched
for quiet the packets per second on them. Its pods keep working. Another node is
drained by its own daemon, which is asked by the Kubernetes API; without that,
drain a node where it runs.

  claim              the others are told; nothing else has changed
  graceful shutdown  routers are told to prefer other nodes (RFC 8326)
  upstream           nothing is announced to routers
  mesh               its pods are withdrawn: other nodes use the fallback
  default            pods reach the world by another link
  paths              no class path is left, and the links are quiet

It is refused where it is not safe, with every reason: above all while another
node is drained. A drain that fails half-way is taken back. It goes on when this
command ends before it, also by Ctrl-C or --timeout, and when the daemon is
started anew: netclassctl status and nodes show it, netclassctl undrain takes it
back.

Exit codes: 0 drained, 1 refused, failed or interrupted, 2 usage, 4 no such node
or class, 5 it took longer than --wait, or than --timeout.`,
		Args: one,
		RunE: a.askLong(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) > 0 {
				req.Node = args[0]
			}
			return a.carryOut(ctx, &progress{app: a, what: "drain", node: req.Node, byName: req.Node != "", forced: req.Force, dryRun: req.ValidateOnly}, func(ctx context.Context, p *progress) error {
				for resp, err := range c.Drain(ctx, req) {
					if err != nil {
						return err
					}
					p.costs = append(p.costs, resp.GetCosts()...)
					resp.Costs = p.costs
					p.last = resp
					p.show(resp.GetDrain(), resp.GetDone())
				}
				return nil
			})
		}),
		ValidArgsFunction: a.complete(nodeNames),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Reason, "reason", "", "why, for people: a `TEXT` of one line")
	flags.StringSliceVar(&req.Classes, "class", nil, "only this `CLASS`; may be repeated")
	flags.Var(&grace, "grace", "between telling routers and withdrawing (default: as configured)")
	flags.Var(&wait, "wait", "the longest that the whole drain may take (default: as configured)")
	flags.BoolVar(&req.KeepEgress, "keep-egress", false, "leave the default in: pods reach the world as before")
	flags.BoolVar(&req.Force, "force", false, "drain although it is not safe; it is logged who did")
	flags.StringVar(&req.Holder, "holder", "", "with --force: the `NODE` whose drain lock is taken from it")
	flags.BoolVar(&req.ValidateOnly, "dry-run", false, "only say what it costs and whether it is safe")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if flags.Changed("grace") {
			req.Grace = durationpb.New(time.Duration(grace))
		}
		if flags.Changed("wait") {
			req.Wait = durationpb.New(time.Duration(wait))
		}
		if req.Holder != "" && !req.Force {
			return errors.New("--holder goes with --force: the lock is taken from that node")
		}
		return nil
	}
	a.patient(cmd)
	a.completeFlag(cmd, "class", classNames)
	a.completeFlag(cmd, "holder", nodeNames)
	return cmd
}

func (a *app) undrain() *cobra.Command {
	req := &pb.UndrainNodeRequest{}
	cmd := &cobra.Command{
		Use:   "undrain [NODE]",
		Short: "Take the drain of a node back, and wait until that is done",
		Long: `Take the drain of a node back, of this one unless one is named, in the reverse
order: its routes, then the mesh, then the routers, each confirmed before the
next. It goes on when this command ends before it.

Exit codes: 0 undrained, 1 failed or interrupted, 2 usage, 4 no such node,
5 it took longer than --timeout.`,
		Args: one,
		RunE: a.askLong(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) > 0 {
				req.Node = args[0]
			}
			return a.carryOut(ctx, &progress{app: a, what: "undrain", node: req.Node, byName: req.Node != ""}, func(ctx context.Context, p *progress) error {
				for resp, err := range c.Undrain(ctx, req) {
					if err != nil {
						return err
					}
					p.last = resp
					p.show(resp.GetDrain(), resp.GetDone())
				}
				return nil
			})
		}),
		ValidArgsFunction: a.complete(nodeNames),
	}
	a.patient(cmd)
	return cmd
}

// patient lets a command take its time unless a timeout is asked for: it has the
// flag of the others without their default.
func (a *app) patient(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var((*length)(&a.timeout), "timeout", "how long to follow it (default: to its end)")
	flags.Lookup("timeout").DefValue = ""
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !flags.Changed("timeout") {
			a.timeout = 0
		}
		if before == nil {
			return nil
		}
		return before(cmd, args)
	}
}

// exitWith is an error with an exit code of its own.
type exitWith struct {
	err  error
	code int
}

func (e exitWith) Error() string { return e.err.Error() }
func (e exitWith) Unwrap() error { return e.err }

// carryOut follows a drain or undrain to its end, and says how that was.
func (a *app) carryOut(ctx context.Context, p *progress, follow func(context.Context, *progress) error) error {
	p.begin = a.env.Now()
	limited, cancel := a.limit(ctx)
	defer cancel()
	err := follow(limited, p)
	p.clear()
	if p.last != nil {
		if _, failed := a.document(p.last); failed != nil {
			return failed
		}
	}
	if err == nil {
		p.end()
		return nil
	}
	if node, reasons, refused := client.Refused(err); refused {
		a.refusal(node, reasons, p.forced)
		return errRefused
	}
	switch failed, tooLong := client.HalfWay(err); {
	case ctx.Err() != nil:
		return exitWith{fmt.Errorf("interrupted; %s", p.goesOn()), exitError}
	case client.IsTimeout(err): // ours, of which the daemon may be the first to know
		return exitWith{fmt.Errorf("not done after %v; %s", a.timeout, p.goesOn()), exitTimeout}
	case p.said != "" && client.IsLost(err):
		return exitWith{fmt.Errorf("lost the connection to netclassd; %s", p.goesOn()), exitError}
	case failed && tooLong:
		return exitWith{p.failure(err), exitTimeout}
	case failed:
		return exitWith{p.failure(err), exitError}
	case client.IsInvalid(err):
		return exitWith{err, exitUsage}
	}
	return err
}

// errRefused makes a command that has said why end with exitError.
var errRefused = errors.New("refused")

// refusal says why a node must not be drained now, one reason a line.
func (a *app) refusal(node string, reasons []string, forced bool) {
	_, _ = fmt.Fprintf(a.env.Err, "netclassctl: it is not safe to drain %s now:\n", either(clean(node), "this node"))
	for _, r := range reasons {
		lines := []string{clean(r)}
		if room := a.env.Width - 4; room >= leastText {
			lines = wrapped(lines[0], room)
		}
		_, _ = fmt.Fprintf(a.env.Err, "  - %s\n", strings.Join(lines, "\n    "))
	}
	if forced {
		return
	}
	hint := "--force drains it all the same"
	if slices.ContainsFunc(reasons, ofLock) {
		hint += ", with --holder NODE by that node's lock"
	}
	_, _ = fmt.Fprintln(a.env.Err, hint)
}

// ofLock reports whether a reason is that another node has the lock.
func ofLock(reason string) bool {
	return strings.Contains(reason, "lock") || strings.Contains(reason, "lease")
}

func nodeNames(ctx context.Context, c *client.Client) ([]string, error) {
	return names(c.Nodes(ctx), (*pb.Node).GetName)
}

func classNames(ctx context.Context, c *client.Client) ([]string, error) {
	return names(c.Classes(ctx), (*pb.Class).GetName)
}
