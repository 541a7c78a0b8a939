package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// A dump that the kernel interrupts, because something changed meanwhile, is
// tried again this often, after a growing pause.
const (
	dumpTries = 6
	dumpPause = 2 * time.Millisecond
)

// Dump returns the whole picture: every link with its addresses, the rules and
// the routes of every table of both families. It is complete or an error.
func (k *Kernel) Dump(ctx context.Context) (*routing.Kernel, error) {
	k.dumpMu.Lock()
	defer k.dumpMu.Unlock()
	var err error
	for try := range dumpTries {
		if try > 0 {
			select {
			case <-time.After(dumpPause << try):
			case <-ctx.Done():
			}
		}
		if err := k.ready(ctx, &k.dump); err != nil {
			return nil, fmt.Errorf("dump kernel: %w", err)
		}
		var picture *routing.Kernel
		if picture, err = k.dump.picture(ctx); err == nil {
			return picture, nil
		}
		if !errors.Is(err, errInterrupted) {
			break
		}
	}
	return nil, fmt.Errorf("dump kernel: %w", err)
}

// picture makes one attempt at a dump.
func (s *socket) picture(ctx context.Context) (*routing.Kernel, error) {
	k := &routing.Kernel{}
	var err error
	if k.Links, err = s.links(ctx); err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	place := make(map[int]int, len(k.Links)) // index → place in k.Links
	for i := range k.Links {
		place[k.Links[i].Index] = i
	}
	err = s.addresses(ctx, func(index int, a routing.LinkAddr) error {
		i, ok := place[index]
		if !ok {
			return errInterrupted // the link came after the links were listed
		}
		k.Links[i].Addrs = append(k.Links[i].Addrs, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	if k.Rules, err = s.rules(ctx); err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	name := func(index int) (string, bool) {
		i, ok := place[index]
		if !ok {
			return "", false
		}
		return k.Links[i].Name, true
	}
	if k.Routes, err = s.routes(ctx, name); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return k, nil
}

// rules lists the rules of both families in the order of lookup.
func (s *socket) rules(ctx context.Context) ([]routing.Rule, error) {
	var rules []routing.Rule
	for _, family := range routing.Families {
		body := make([]byte, ruleHeaderLen)
		body[0] = familyNumber(family == routing.IPv4)
		err := s.list(ctx, unix.RTM_GETRULE, unix.RTM_NEWRULE, body, func(b []byte) error {
			r, ok, err := decodeRule(b)
			if ok && err == nil {
				rules = append(rules, r)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// routes lists the routes of every table of both families.
func (s *socket) routes(ctx context.Context, name func(int) (string, bool)) ([]routing.Route, error) {
	var routes []routing.Route
	for _, family := range routing.Families {
		body := make([]byte, unix.SizeofRtMsg)
		body[0] = familyNumber(family == routing.IPv4)
		err := s.list(ctx, unix.RTM_GETROUTE, unix.RTM_NEWROUTE, body, func(b []byte) error {
			r, ok, err := decodeRoute(b, name)
			if ok && err == nil {
				routes = append(routes, r)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return routes, nil
}
