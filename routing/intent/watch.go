package intent

import (
	"context"
	"log/slog"

	"netclass.dev/routing/internal/watchfile"
)

// Watch calls look at once and whenever the configuration at path may have
// changed, until ctx ends.
func Watch(ctx context.Context, path string, log *slog.Logger, look func()) {
	watchfile.Watch(ctx, path, log, look)
}
