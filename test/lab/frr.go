package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// FRR is a running zebra with a bgpd.
type FRR struct {
	Zebra, BGPD *Process
	host        *Host
	dir         string
}

// StartFRR writes the configuration and starts zebra and bgpd with it. It
// returns once both answer.
func (h *Host) StartFRR(config string) (*FRR, error) {
	f := &FRR{host: h, dir: h.File("frr")}
	if err := errors.Join(os.MkdirAll(f.dir, 0o777), os.Chmod(f.dir, 0o777)); err != nil {
		return nil, fmt.Errorf("start frr on %s: %w", h.Name, err)
	}
	if err := os.WriteFile(f.file("frr.conf"), []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("start frr on %s: %w", h.Name, err)
	}
	return f, f.Start()
}

func (f *FRR) file(name string) string { return filepath.Join(f.dir, name) }

// Start starts FRR again after it was stopped or killed.
func (f *FRR) Start() (err error) {
	if f.Zebra, err = f.daemon("zebra"); err != nil {
		return err
	}
	f.BGPD, err = f.daemon("bgpd")
	return err
}

// daemon starts one of FRR's daemons, which change their user.
func (f *FRR) daemon(name string) (*Process, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.file(name + ".vty"))
	p, err := f.host.Start(Command{Path: path, Contain: true, Args: []string{
		"-f", f.file("frr.conf"), "-i", f.file(name + ".pid"),
		"-z", f.file("zserv.api"), "--vty_socket", f.dir, "--log", "stdout",
	}})
	if err != nil {
		return nil, err
	}
	return p, p.answers(func(context.Context) error {
		_, err := os.Stat(f.file(name + ".vty"))
		return err
	})
}

// Ctl runs one command in FRR's shell.
func (f *FRR) Ctl(ctx context.Context, command string) (string, error) {
	path, err := program("vtysh")
	if err != nil {
		return "", err
	}
	return f.host.Exec(ctx, path, "--vty_socket", f.dir, "-c", command)
}

// Stop stops both daemons.
func (f *FRR) Stop() error { return errors.Join(f.BGPD.Stop(), f.Zebra.Stop()) }

// Kill kills both daemons.
func (f *FRR) Kill() error { return errors.Join(f.BGPD.Kill(), f.Zebra.Kill()) }
