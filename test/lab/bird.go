package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// startPatience is how long a peer program may take until it answers.
const startPatience = 10 * time.Second

// program finds a program by name, also where Debian keeps it out of PATH.
func program(name string) (string, error) {
	for _, try := range []string{name, "/usr/sbin/" + name, "/usr/lib/frr/" + name} {
		if path, err := exec.LookPath(try); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find program %s: %w", name, exec.ErrNotFound)
}

// BIRD is a running BIRD 2.
type BIRD struct {
	*Process
	Control string // its control socket
	config  string
}

// StartBIRD writes the configuration and starts BIRD with it, in the foreground.
// It returns once BIRD answers on its control socket.
func (h *Host) StartBIRD(config string) (*BIRD, error) {
	b := &BIRD{config: h.File("bird.conf"), Control: h.File("bird.ctl")}
	if err := os.WriteFile(b.config, []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("start bird on %s: %w", h.Name, err)
	}
	return b, b.start(h)
}

// Start starts BIRD again after it was stopped or killed.
func (b *BIRD) Start() error { return b.start(b.Host) }

func (b *BIRD) start(h *Host) error {
	path, err := program("bird")
	if err != nil {
		return err
	}
	_ = os.Remove(b.Control)
	b.Process, err = h.Start(Command{Path: path, Args: []string{"-f", "-c", b.config, "-s", b.Control, "-P", h.File("bird.pid")}})
	if err != nil {
		return err
	}
	return b.answers(func(ctx context.Context) error {
		_, err := b.Ctl(ctx, "show", "status")
		return err
	})
}

// Ctl asks BIRD on its control socket, as birdc does.
func (b *BIRD) Ctl(ctx context.Context, words ...string) (string, error) {
	path, err := program("birdc")
	if err != nil {
		return "", err
	}
	return b.Host.Exec(ctx, path, append([]string{"-r", "-s", b.Control}, words...)...)
}

// Order tells BIRD to do something, which Ctl may not.
func (b *BIRD) Order(words ...string) error {
	path, err := program("birdc")
	if err != nil {
		return err
	}
	_, err = b.Host.Exec(context.Background(), path, append([]string{"-s", b.Control}, words...)...)
	return err
}

// answers waits until ask succeeds, or the process has ended.
func (p *Process) answers(ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := Eventually(ctx, func() error { return ask(ctx) }); err != nil {
		return errors.Join(fmt.Errorf("start %s on %s: %w; its log ends:\n%s", p.Name, p.Host.Name, err, p.LogTail(10)), p.Kill())
	}
	return nil
}
