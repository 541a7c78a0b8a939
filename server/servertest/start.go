package servertest

import (
	"context"
	"path/filepath"
	"testing"

	"netclass.dev/server"
)

// Start serves the source on a real socket until the test ends, and returns the
// socket's path. A source that can drain does.
func Start(t testing.TB, source server.Source) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "n.sock")
	l, err := server.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	drains, _ := source.(server.Drainer)
	go func() { served <- server.New(server.Config{Source: source, Drains: drains}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return socket
}
