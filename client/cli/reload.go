package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"netclass.dev/client"
)

func (a *app) reload() *cobra.Command {
	validateOnly := false
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration anew",
		Long: `Make the daemon read its configuration anew, as SIGHUP does. Every fault is
printed with its file, line and column, and the configuration in force then
stays.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			resp, err := c.Reload(ctx, validateOnly)
			if err != nil {
				return err
			}
			if done, err := a.document(resp); done {
				return err
			}
			for _, w := range resp.GetWarnings() {
				_, _ = fmt.Fprintf(a.env.Err, "warning: %s\n", clean(w))
			}
			if validateOnly {
				a.say("%s is valid\n", clean(resp.GetPath()))
			} else {
				a.say("%s is in force\n", clean(resp.GetPath()))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "only check the file; change nothing")
	return cmd
}
