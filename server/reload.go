package server

import (
	"context"

	pb "netclass.dev/proto/netclass/v1"
)

// Reload implements the service.
func (s *Server) Reload(ctx context.Context, req *pb.ReloadRequest) (*pb.ReloadResponse, error) {
	found, err := s.source.Reload(ctx, req.GetValidateOnly())
	if err != nil {
		return nil, reloadError(err)
	}
	warnings := make([]string, len(found))
	for i, w := range found {
		warnings[i] = w.String()
	}
	return &pb.ReloadResponse{Path: s.source.State().Config.Path, Warnings: some(warnings)}, nil
}
