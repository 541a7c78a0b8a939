// Package server is the gRPC face of the daemon: it shows the newest published
// state as protocol buffers, and holds none of its own.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// Source is what the server shows.
type Source interface {
	// State returns the newest state; never nil.
	State() *routing.State
	// Wait blocks until there is a state whose Sequence is greater than after,
	// and returns the newest.
	Wait(ctx context.Context, after uint64) (*routing.State, error)
	// Reload reads the configuration anew, and returns what it warns of. A
	// *routing.Invalid lists the faults of a file that is not taken.
	Reload(ctx context.Context, validateOnly bool) (warnings []routing.Problem, err error)
	// Explain says where the packets of a question go, one for each family. A
	// *routing.BadQuestion names what cannot be asked.
	Explain(context.Context, routing.Question) ([]*routing.Explanation, error)
	// Verify holds what the classes promise against the kernel: some flows in
	// turn, or all.
	Verify(ctx context.Context, all bool) (*routing.Verification, error)
}

// Limits that keep one client from costing the daemon more than a little.
const (
	maxConnections  = 512
	reservedForRoot = 32 // of maxConnections
	maxStreams      = 128
	maxWatches      = 256
	maxDrains       = 64
	maxRequest      = 64 << 10
	maxResponse     = 4 << 20 // what clients accept unless told otherwise
	handshakeTime   = 5 * time.Second
	// stopTime is how long running calls may take to end once the server stops.
	stopTime = 300 * time.Millisecond
)

// Config is what a server needs.
type Config struct {
	Source Source
	// Drains is who carries out drains; nil: nobody does.
	Drains Drainer
	// Unloaded says that there is a newer configuration than the one that was read
	// last; empty: there is not. Nil: nobody can say.
	Unloaded func() string
	Log      *slog.Logger
	// Readers and Admins name the groups that may read, and also change.
	// Empty or unknown: root only.
	Readers, Admins string
}

// Server answers on a unix socket.
type Server struct {
	pb.UnimplementedNetClassServiceServer

	source   Source
	drains   Drainer
	unloaded func() string
	log      *slog.Logger
	access   access
	views    viewCache
	watches  chan struct{}   // a slot for each Watch
	draining chan struct{}   // a slot for each caller who drains or undrains
	stop     <-chan struct{} // closed: streams are to end
}

// New returns a server that is not serving yet. A Server serves once.
func New(c Config) *Server {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		source:   c.Source,
		drains:   c.Drains,
		unloaded: c.Unloaded,
		log:      log,
		access:   access{readers: c.Readers, admins: c.Admins},
		watches:  make(chan struct{}, maxWatches),
		draining: make(chan struct{}, maxDrains),
	}
}

// Serve answers on l until ctx is done, then ends: running calls get a moment,
// streams are told at once, and whatever is left after that is cut off. It
// closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxSendMsgSize(maxResponse),
		grpc.MaxHeaderListSize(16<<10),
		grpc.MaxConcurrentStreams(maxStreams),
		// Hundreds of watchers are usual, large requests are not.
		grpc.ReadBufferSize(4<<10),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 10 * time.Second}),
	)
	pb.RegisterNetClassServiceServer(g, s)
	checks := newHealthService()
	healthpb.RegisterHealthServer(g, checks)
	reflection.Register(g)

	// The very channel that ends whoever carries out drains, so that their word of it
	// is understood.
	s.stop = ctx.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	checks.set(s.source.State())
	go checks.follow(ctx, s.source)

	served := make(chan error, 1)
	callers := limitListener(l, s.log)
	go func() { served <- g.Serve(callers) }()
	select {
	case err := <-served:
		g.Stop()
		return err
	case <-ctx.Done():
	}

	checks.Shutdown()
	hard := time.AfterFunc(stopTime, func() {
		callers.cutOff()
		g.Stop()
	})
	defer hard.Stop()
	g.GracefulStop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
