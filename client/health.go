package client

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// What of the health service is netclassd's own: the name under which it says whether
// the node's classes work, and the trailer that says why not.
const (
	classesService = "netclass.v1.Classes"
	reasonTrailer  = "netclass-reason-bin"
)

// Health asks the standard health service (grpc.health.v1) how the daemon is: one
// that waits for a link or a configuration is serving, a degraded one is not.
func (c *Client) Health(ctx context.Context) (*healthpb.HealthCheckResponse, error) {
	return call(ctx, c, healthpb.NewHealthClient(c.conn).Check, &healthpb.HealthCheckRequest{})
}

// ClassesHealth asks the standard health service whether the classes of this node
// work, and if they do not, why; a node without a configuration is serving.
func (c *Client) ClassesHealth(ctx context.Context) (answer *healthpb.HealthCheckResponse, why string, err error) {
	var trailer metadata.MD
	answer, err = healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: classesService}, grpc.Trailer(&trailer))
	return answer, strings.Join(trailer.Get(reasonTrailer), "; "), c.explain(err)
}
