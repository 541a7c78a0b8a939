package client

import (
	"context"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Health asks the standard health service (grpc.health.v1) how the daemon is: one
// that waits for a link or a configuration is serving, a degraded one is not.
func (c *Client) Health(ctx context.Context) (*healthpb.HealthCheckResponse, error) {
	return call(ctx, c, healthpb.NewHealthClient(c.conn).Check, &healthpb.HealthCheckRequest{})
}
