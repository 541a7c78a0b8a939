package cli

import (
	"context"

	"github.com/spf13/cobra"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"netclass.dev/client"
)

func (a *app) health() *cobra.Command {
	var live, ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask whether it is well, as probes do; exit 3 when not",
		Long: `health asks the standard health service, as a probe does. A daemon that waits
for a link or a configuration is well; a degraded one is not, and a restart
would not mend it: liveness probes use --live.

Readiness probes use --ready, which asks whether this node's classes work, and
says why they do not: a class waits or is violated, a link of a table is not
there, this node's own pods have no route, or no session of the mesh is up. A
peer that is away, a drain of this node and a configuration that is yet to come
are no reason.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			answer, why, err := healthOf(ctx, c, ready)
			if err != nil {
				return err
			}
			if done, err := a.document(answer); err != nil {
				return err
			} else if !done && why != "" {
				a.say("%s: %s\n", answer.GetStatus(), clean(why))
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
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether this node's classes work")
	cmd.MarkFlagsMutuallyExclusive("live", "ready")
	return cmd
}

// healthOf asks how the daemon is, or, for readiness, its classes.
func healthOf(ctx context.Context, c *client.Client, ready bool) (answer *healthpb.HealthCheckResponse, why string, err error) {
	if ready {
		return c.ClassesHealth(ctx)
	}
	answer, err = c.Health(ctx)
	return answer, "", err
}
