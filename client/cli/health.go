package cli

import (
	"context"

	"github.com/spf13/cobra"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"netclass.dev/client"
)

func (a *app) health() *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask whether it is well, as probes do; exit 3 when degraded",
		Long: `health asks the standard health service, as a probe does. A daemon that waits for
a link or a configuration is well; a degraded one is not, and a restart would not
mend it: liveness probes use --live.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			answer, err := c.Health(ctx)
			if err != nil {
				return err
			}
			if done, err := a.document(answer); err != nil {
				return err
			} else if !done {
				a.say("%s\n", answer.GetStatus())
			}
			if !live && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				return errDegraded
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&live, "live", false, "exit 0 whenever the daemon answers")
	return cmd
}
