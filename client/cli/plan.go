package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) plan() *cobra.Command {
	return &cobra.Command{
		Use:   "plan",
		Short: "Show what the next pass would change",
		Long: `Show what the next pass would change in the kernel, in the order in which it
would: "nothing to do" when the kernel is as planned. It changes nothing itself.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			resp, err := c.Plan(ctx, a.family())
			if err != nil {
				return err
			}
			if done, err := a.document(resp); done {
				return err
			}
			if resp.GetHold() != "" {
				a.say("# nothing is deleted now: %s\n", clean(resp.GetHold()))
			}
			tones := map[pb.Verb]tone{pb.Verb_VERB_ADD: good, pb.Verb_VERB_REPLACE: fair, pb.Verb_VERB_DELETE: bad}
			for _, op := range resp.GetOps() {
				text := clean(op.GetText())
				if a.format == formatWide {
					text = fmt.Sprintf("%-22s  %s", op.GetStage(), text)
				}
				a.say("%s\n", a.paint(cell{text, tones[op.GetVerb()]}))
			}
			if len(resp.GetOps()) == 0 {
				a.say("nothing to do\n")
				return nil
			}
			a.footer("%s", count(len(resp.GetOps()), "change"))
			return nil
		}),
	}
}
