package server

import (
	"context"
	"fmt"
	"log/slog"
	"os/user"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
)

// access decides who may call what.
type access struct{ readers, admins string }

// changes lists the methods that change something. Every other method reads:
// also health and reflection.
var changes = map[string]bool{
	pb.NetClassService_Reload_FullMethodName:      true,
	pb.NetClassService_DrainNode_FullMethodName:   true,
	pb.NetClassService_UndrainNode_FullMethodName: true,
}

// check returns nil, or a PermissionDenied that says which group is missing.
// Groups are looked up at each call, so that one made later counts at once.
func (a access) check(c caller, method string) error {
	if c.root() || a.member(c, a.admins) {
		return nil
	}
	if changes[method] {
		return denied(c, "change netclassd", a.admins)
	}
	if a.member(c, a.readers) {
		return nil
	}
	return denied(c, "read from netclassd", a.readers)
}

func (a access) member(c caller, group string) bool {
	gid, ok := lookupGroup(group)
	return ok && c.in(gid)
}

func denied(c caller, what, group string) error {
	who := "root"
	if _, ok := lookupGroup(group); ok {
		who = fmt.Sprintf("root or a member of the group %q", group)
	} else if group != "" {
		who = fmt.Sprintf("root (there is no group %q)", group)
	}
	return withInfo(status.Newf(codes.PermissionDenied, "to %s you must be %s; you are uid %d", what, who, c.uid),
		"NOT_PERMITTED", map[string]string{"group": group, "uid": strconv.FormatUint(uint64(c.uid), 10)})
}

// lookupGroup returns a group's number; false when there is none of that name.
func lookupGroup(name string) (uint32, bool) {
	if name == "" {
		return 0, false
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, false
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(gid), err == nil
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	err = s.guarded(ctx, info.FullMethod, func() error {
		resp, err = handler(ctx, req)
		return err
	})
	return resp, err
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.guarded(stream.Context(), info.FullMethod, func() error { return handler(srv, stream) })
}

// guarded runs a call: checks who makes it, logs it, and turns a panic into an
// error, because showing state must never end the daemon that keeps it.
func (s *Server) guarded(ctx context.Context, method string, call func() error) (err error) {
	start := time.Now()
	who, ok := callerFrom(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "the caller is not known")
	}
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked(method, r)
		}
		code := status.Code(err)
		level := slog.LevelDebug
		if changes[method] || code == codes.PermissionDenied {
			level = slog.LevelInfo
		}
		s.log.LogAttrs(ctx, level, "call", slog.String("method", method), slog.Any("caller", who),
			slog.String("code", code.String()), slog.Duration("took", time.Since(start)))
	}()
	if err := s.access.check(who, method); err != nil {
		return err
	}
	return call()
}

// panicked logs a panic and returns the error of the call that it ended.
func (s *Server) panicked(method string, r any) error {
	s.log.Error("call panicked", slog.String("method", method), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
	return status.Error(codes.Internal, "the call failed inside netclassd; see its log")
}
