package inventory

import (
	"context"

	"netclass.dev/routing/internal/watchfile"
)

// Run reads the file, and again after each change, until ctx ends. It calls
// notify whenever Inventory has something new. Run it once.
func (f *File) Run(ctx context.Context, notify func()) {
	watchfile.Watch(ctx, f.path, f.log, func() {
		if f.read() {
			notify()
		}
	})
}
