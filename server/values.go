package server

import (
	"net/netip"
	"regexp"
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

// attempt is how Go tells of a connection that failed: "dial tcp4 10.0.0.1:0->
// 10.0.0.2:179: connect: connection refused", and so of reading and writing.
var attempt = regexp.MustCompile(`\b(dial|read|write) (?:tcp|udp|unix)[46]? (?:\S+->)?(\S+): (?:(?:connect|read|write): )?`)

var attempts = map[string]string{"dial": "connect to", "read": "read from", "write": "write to"}

// plainly says in people's words what Go's packages say of a failure in theirs.
func plainly(s string) string {
	s = attempt.ReplaceAllStringFunc(s, func(found string) string {
		parts := attempt.FindStringSubmatch(found)
		return attempts[parts[1]] + " " + parts[2] + ": "
	})
	return goWords.Replace(s)
}

var goWords = strings.NewReplacer("i/o timeout", "no answer", "context deadline exceeded", "it took too long", "context canceled", "it was given up")

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// since is stamp for the beginning of something that lasts. Where the wall clock
// has been set since then (a machine without a battery learns the time only from
// the network), it is where the clock as it goes now would have put it, so that
// nothing seems to last for decades.
func (v *view) since(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() || v.Now.IsZero() {
		return stamp(t)
	}
	return stamp(t.Add(clockSet(v.Now.Round(0).Sub(t.Round(0)), v.Now.Sub(t))))
}

// clockSet returns by how much the wall clock has been set in a time that was so
// long by that clock, and so long in truth. What it is slowed or hastened by all
// the time does not count.
func clockSet(wall, elapsed time.Duration) time.Duration {
	if set := (wall - elapsed).Round(time.Second); set.Abs() > time.Second {
		return set
	}
	return 0
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
	routing.Drained: pb.Health_HEALTH_DRAINED, routing.DrainingState: pb.Health_HEALTH_DRAINING,
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
