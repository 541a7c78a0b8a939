package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) verify() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold the promises against the kernel; exit 3 when one is broken",
		Long: `Hold what the classes promise against the kernel: for each traffic of each
class, each other node and both families, the kernel is asked where a packet
would go.

  HELD      it leaves by the class's link
  SHARED    by another link of the cluster: the class's own path is away
  WAITING   there is no way yet, and none is promised
  VIOLATED  by another link although the class's own is there, by a router, or
            not at all although a route is planned

The daemon does the same by itself after every pass that changed something and
at every resync; in a large cluster the nodes have their turn, and so they have
here without --all. The last line says whether a router can come to carry a
packet of the cluster: PROVEN when guard and fence are in the kernel and no
answer to any kind of packet leads to a router. Exit code 3: something is
VIOLATED, or that is NOT PROVEN although the configuration asks for it and the
node has the links that it takes; one that lacks them is shown, with 0, like a
class that waits for its link.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			resp, err := c.Verify(ctx, all, a.family())
			if err != nil {
				return err
			}
			done, err := a.document(resp)
			if err != nil {
				return err
			}
			if !done {
				a.promises(resp)
			}
			if r := resp.GetRouter(); !r.GetProven() && !r.GetByChoice() {
				return errDegraded
			}
			for _, p := range resp.GetPromises() {
				if p.GetState() == pb.PromiseState_PROMISE_STATE_VIOLATED {
					return errDegraded
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "look at every flow now, however many there are")
	return cmd
}

func promiseState(s pb.PromiseState) cell {
	tones := map[pb.PromiseState]tone{
		pb.PromiseState_PROMISE_STATE_HELD: good, pb.PromiseState_PROMISE_STATE_WAITING: fair, pb.PromiseState_PROMISE_STATE_SHARED: fair,
		pb.PromiseState_PROMISE_STATE_VIOLATED: bad,
	}
	return cell{capitals(s, "PROMISE_STATE_"), tones[s]}
}

func (a *app) promises(resp *pb.VerifyResponse) {
	var rows [][]cell
	for _, p := range resp.GetPromises() {
		checked := ""
		if p.GetFlows() > 0 {
			checked = fmt.Sprintf("%d/%d", p.GetChecked(), p.GetFlows())
		}
		rows = append(rows, row(p.GetClass(), p.GetTraffic().GetFrom()+"->"+p.GetTraffic().GetTo(), family(p.GetFamily()), p.GetLink(), checked,
			promiseState(p.GetState()), p.GetReason()))
	}
	a.print(columns("CLASS TRAFFIC FAMILY LINK CHECKED> STATE +REASON|"), rows)
	a.say("\n")
	a.broken(resp.GetPromises())
	said := proof(resp.GetRouter())
	a.fold(cell{"router never carries cluster traffic: " + said.text, said.tone}, 0)
	if a.format == formatWide {
		for _, c := range resp.GetRouter().GetCovers() {
			a.say("  asked: %s\n", clean(c))
		}
	}
	within := ""
	if resp.GetWithin() != nil {
		within = "; all within " + short(resp.GetWithin().AsDuration())
	}
	a.say("checked %d of %d flows in %s%s\n", resp.GetChecked(), resp.GetFlows(), either(span(resp.GetTook()), "0s"), within)
}

// broken says of each promise that is not held why, for the worst of its flows.
func (a *app) broken(list []*pb.Promise) {
	if a.format == formatWide {
		return // the table says it
	}
	some := false
	for _, p := range list {
		if p.GetReason() == "" || p.GetState() == pb.PromiseState_PROMISE_STATE_HELD {
			continue
		}
		some = true
		state := promiseState(p.GetState())
		a.say("%s%*s%s %s->%s %s\n", a.paint(state), max(10-len(state.text), 1), "", p.GetClass(), p.GetTraffic().GetFrom(), p.GetTraffic().GetTo(), family(p.GetFamily()))
		a.say("%10s", "")
		a.fold(cell{text: clean(p.GetReason())}, 10)
	}
	if some {
		a.say("\n")
	}
}

// proof is the state of the router's proof with the reason.
func proof(p *pb.RouterProof) cell {
	switch {
	case p == nil:
		return cell{"NOT PROVEN (not looked at yet)", fair}
	case p.GetProven():
		return cell{"PROVEN", good}
	case p.GetByChoice():
		return cell{"NOT PROVEN (" + clean(p.GetReason()) + ")", fair}
	}
	return cell{"NOT PROVEN (" + clean(p.GetReason()) + ")", bad}
}

// routerLine is the proof in the status.
func (a *app) routerLine(s *pb.Status) cell {
	if s.GetClasses() == 0 {
		return cell{} // there is nothing to prove
	}
	c := proof(s.GetRouter())
	for _, condition := range s.GetConditions() {
		if condition.GetObject() == "router" && condition.GetMessage() == s.GetRouter().GetReason() {
			c.text = "NOT PROVEN (" + condition.GetReason() + ", see below)"
		}
	}
	c.text = "never carries cluster traffic: " + c.text
	if r := s.GetRouter(); r.GetProven() {
		c.text += fmt.Sprintf(", %s looked at %s ago", count(r.GetChecked(), "flow"), a.since(r.GetTime()))
	}
	return c
}
