package client_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

func connect(t *testing.T, socket string) *client.Client {
	t.Helper()
	c, err := client.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestIteratorsGoThroughAllPages(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t, servertest.NewSource(servertest.Large(25000))))
	routes, err := client.Collect(c.Routes(t.Context(), "pods", pb.Family_FAMILY_IPV6))
	if err != nil || len(routes) != 12500+17 {
		t.Errorf("%d routes, %v", len(routes), err)
	}
	n := 0
	for _, err := range c.Routes(t.Context(), "pods", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("an iteration that was left early gave %d", n)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnReload = func(context.Context, bool) ([]routing.Problem, error) {
		return nil, &routing.Invalid{Problems: []routing.Problem{{File: "f", Line: 1, Column: 2, Message: "m"}}}
	}
	c := connect(t, servertest.Start(t, source))
	_, err := c.Class(t.Context(), "nope")
	if !client.IsNotFound(err) || client.Reason(err) != "NOT_FOUND" || err.Error() != `there is no class "nope"` {
		t.Errorf("not found: %v, %s", err, client.Reason(err))
	}
	if _, err := client.Collect(c.Peers(t.Context(), "nope", 0, 0)); !client.IsNotFound(err) {
		t.Errorf("list of nobody: %v", err)
	}
	_, err = c.Reload(t.Context(), false)
	if v := client.Violations(err); !client.IsInvalid(err) || len(v) != 1 || v[0] != (client.Violation{Field: "f:1:2", Description: "m"}) {
		t.Errorf("reload: %v, %v", err, v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if _, err := c.Status(ctx); !client.IsTimeout(err) {
		t.Errorf("no time: %v", err)
	}

	nobody := connect(t, filepath.Join(t.TempDir(), "n.sock"))
	_, err = nobody.Status(t.Context())
	var unreachable *client.UnreachableError
	if !errors.As(err, &unreachable) || !errors.Is(err, fs.ErrNotExist) || client.IsTimeout(err) {
		t.Errorf("nobody: %v", err)
	}
	for _, err := range nobody.Watch(t.Context()) {
		if !errors.As(err, &unreachable) {
			t.Errorf("watch of nobody: %v", err)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	c := connect(t, servertest.Start(t, source))
	objects := 0
	for e, err := range c.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.GetSynced() != nil {
			source.Publish(func(st *routing.State) { st.Health = routing.Degraded })
			continue
		}
		if objects++; e.GetUpsert().GetDaemon().GetHealth() == pb.Health_HEALTH_DEGRADED {
			break
		}
	}
	if objects != 18 {
		t.Errorf("%d objects", objects)
	}
}
