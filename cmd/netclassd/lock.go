package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"netclass.dev/routing/kernel"
	"netclass.dev/server"
)

// locks are what a running daemon has: its network namespace and its socket.
type locks []io.Closer

// lock takes both, for a command that must not run beside a daemon: one with the
// same files may be in another network namespace, one in this may have others.
func lock(f *flags) (locks, error) {
	claim, err := kernel.Claim(context.Background(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	listener, err := server.Listen(f.socket, "")
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	return locks{claim, listener}, nil
}

func (l locks) Close() error {
	var err error
	for _, c := range l {
		err = errors.Join(err, c.Close())
	}
	return err
}
