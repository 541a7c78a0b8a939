package cli

import (
	"context"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) reload() *cobra.Command {
	validateOnly := false
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration anew",
		Args:  none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			path, err := c.Reload(ctx, validateOnly)
			if err != nil {
				return err
			}
			if done, err := a.document(&pb.ReloadResponse{Path: path}); done {
				return err
			}
			if validateOnly {
				a.say("%s is valid\n", path)
			} else {
				a.say("%s is in force\n", path)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "only check the file; change nothing")
	return cmd
}
