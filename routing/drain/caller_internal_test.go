package drain

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"netclass.dev/routing"
)

// TestCallersWhoLeft: who no longer listens is not told any more, nor kept.
func TestCallersWhoLeft(t *testing.T) {
	d := &Drainer{log: slog.New(slog.DiscardHandler)}
	gone, stays := newCaller(routing.DrainRequest{}), newCaller(routing.DrainRequest{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gone.listen(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	d.callers = []*caller{gone, stays}
	d.tell(&routing.DrainStatus{})
	if len(d.callers) != 1 || d.callers[0] != stays || len(stays.taken()) != 1 {
		t.Errorf("kept are %d callers", len(d.callers))
	}
}
