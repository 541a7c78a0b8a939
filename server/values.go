package server

import (
	"net/netip"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// The text of values that may be absent: empty then.

func addr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func prefix(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

// text makes a name or message from the kernel, a peer or a file fit to send:
// protocol buffers refuse what is not UTF-8, and link names may be any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

var healths = map[routing.Health]pb.Health{
	routing.Ready: pb.Health_HEALTH_READY, routing.Shared: pb.Health_HEALTH_SHARED, routing.Waiting: pb.Health_HEALTH_WAITING,
	routing.Delegated: pb.Health_HEALTH_DELEGATED, routing.Degraded: pb.Health_HEALTH_DEGRADED, routing.IdleState: pb.Health_HEALTH_IDLE,
}

// checkFamily refuses a family that is none.
func checkFamily(f pb.Family) error {
	if _, known := pb.Family_name[int32(f)]; !known {
		return badField("family", "%d is neither IPv4 nor IPv6", f)
	}
	return nil
}

// inFamily reports whether f passes the filter.
func inFamily(filter pb.Family, f routing.Family) bool {
	return filter == pb.Family_FAMILY_UNSPECIFIED || filter == pb.Family(f)
}
