package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/test/lab"
)

// status asks a daemon how it stands.
func status(ctx context.Context, d *lab.Netclassd) (*pb.Status, error) {
	c, err := client.Dial(d.Socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}

// waitSynced waits until the daemon says that every input has been read and the
// kernel is as planned, and returns what it says.
func waitSynced(b *testing.B, d *lab.Netclassd) *pb.Status {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	var s *pb.Status
	err := lab.Eventually(ctx, func() (err error) {
		if s, err = status(ctx, d); err != nil {
			return err
		}
		if p := s.GetPass(); !p.GetSynced() || p.GetPending() > 0 || s.GetSessionsEstablished() < s.GetSessions() {
			return fmt.Errorf("%s: %v, %d of %d sessions", d.Node.Name, p, s.GetSessionsEstablished(), s.GetSessions())
		}
		return nil
	})
	if err != nil {
		b.Fatalf("%v\n%s", err, d.LogTail(20))
	}
	return s
}

// pause is time.Sleep that a benchmark's end cuts short.
func pause(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}
