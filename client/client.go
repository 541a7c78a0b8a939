// Package client talks to the netclassd of this node over its unix socket.
package client

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
)

// DefaultSocket is where netclassd listens unless told otherwise.
const DefaultSocket = "/run/netclassd/netclassd.sock"

// maxMessage is more than the server ever sends.
const maxMessage = 8 << 20

// Client is a connection to one daemon. It is safe for concurrent use. Calls are
// not retried.
type Client struct {
	socket string
	conn   *grpc.ClientConn
	api    pb.NetClassServiceClient
	// dialError is why the newest attempt to connect failed: gRPC itself only
	// hands its text on.
	dialError atomic.Pointer[error]
}

// Dial returns a client for the daemon at the socket. It connects with the first
// call, which fails at once when nobody listens there.
func Dial(socket string) (*Client, error) {
	c := &Client{socket: socket}
	conn, err := grpc.NewClient("passthrough:///netclassd",
		grpc.WithContextDialer(c.dial),
		// The kernel tells the server who we are.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	c.conn, c.api = conn, pb.NewNetClassServiceClient(conn)
	return c, nil
}

func (c *Client) dial(ctx context.Context, _ string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		c.dialError.Store(&err)
		return nil, err
	}
	c.dialError.Store(nil)
	return conn, nil
}

// Close ends the connection and every running call.
func (c *Client) Close() error { return c.conn.Close() }

// call runs one call and gives its error our shape.
func call[Req, Resp proto.Message](ctx context.Context, c *Client, rpc func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	resp, err := rpc(ctx, req)
	return resp, c.explain(err)
}

// Status says how the daemon stands.
func (c *Client) Status(ctx context.Context) (*pb.Status, error) {
	resp, err := call(ctx, c, c.api.GetStatus, &pb.GetStatusRequest{})
	return resp.GetStatus(), err
}

// Class returns the class of that name.
func (c *Client) Class(ctx context.Context, name string) (*pb.Class, error) {
	resp, err := call(ctx, c, c.api.GetClass, &pb.GetClassRequest{Name: name})
	return resp.GetClass(), err
}

// Reload makes the daemon read its configuration, or only check it, and returns
// the file's path with what it warns of. Violations lists the faults of a refused
// one.
func (c *Client) Reload(ctx context.Context, validateOnly bool) (*pb.ReloadResponse, error) {
	return call(ctx, c, c.api.Reload, &pb.ReloadRequest{ValidateOnly: validateOnly})
}

// Explain says where a packet goes, once for each family that is left open.
func (c *Client) Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	return call(ctx, c, c.api.Explain, req)
}

// Verify holds the promises of one family, or both, against the kernel: all
// flows, or those whose turn it is.
func (c *Client) Verify(ctx context.Context, all bool, family pb.Family) (*pb.VerifyResponse, error) {
	return call(ctx, c, c.api.Verify, &pb.VerifyRequest{All: all, Family: family})
}
