package server

import (
	"context"

	pb "netclass.dev/proto/netclass/v1"
)

// Reload implements the service.
func (s *Server) Reload(ctx context.Context, req *pb.ReloadRequest) (*pb.ReloadResponse, error) {
	if err := s.source.Reload(ctx, req.GetValidateOnly()); err != nil {
		return nil, reloadError(err)
	}
	return &pb.ReloadResponse{Path: s.source.State().Config.Path}, nil
}
