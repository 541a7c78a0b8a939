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
//
// One thing is beyond what Linux lets us know: while others keep changing a large
// IPv6 table during each of several attempts, the last may lack routes of that
// table. Each such change is an event too, and so asks for another dump.
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
		if picture, err = k.attempt(ctx, try == dumpTries-1); err == nil {
			k.routes = len(picture.Routes)
			return picture, nil
		}
		if !errors.Is(err, errInterrupted) {
			break
		}
	}
	return nil, fmt.Errorf("dump kernel: %w", err)
}

// attempt makes one attempt at a dump, and makes sure that nothing disturbed it.
func (k *Kernel) attempt(ctx context.Context, last bool) (*routing.Kernel, error) {
	observer, err := k.observe()
	if err != nil {
		return nil, fmt.Errorf("observe changes: %w", err)
	}
	defer func() { _ = observer.close() }()
	picture, delicate, err := k.dump.picture(ctx, k.routes)
	if err != nil || delicate == (observed{}) {
		return picture, err
	}
	changed, err := observer.seen()
	if err != nil {
		return nil, fmt.Errorf("observe changes: %w", err)
	}
	if changed.rules && delicate.rules || changed.routes && delicate.routes && !last {
		return nil, errInterrupted
	}
	return picture, nil
}

// picture lists everything, with room for the number of routes that the last
// dump found. It says what came in more than one datagram and so depends on
// nothing having changed.
func (s *socket) picture(ctx context.Context, routes int) (_ *routing.Kernel, delicate observed, _ error) {
	k := &routing.Kernel{}
	var err error
	if k.Links, err = s.links(ctx); err != nil {
		return nil, delicate, fmt.Errorf("list links: %w", err)
	}
	s.filterAll(k.Links)
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
		return nil, delicate, fmt.Errorf("list addresses: %w", err)
	}
	if k.Rules, delicate.rules, err = s.rules(ctx); err != nil {
		return nil, delicate, fmt.Errorf("list rules: %w", err)
	}
	name := func(index int) (string, bool) {
		i, ok := place[index]
		if !ok {
			return "", false
		}
		return k.Links[i].Name, true
	}
	if k.Routes, err = s.routes(ctx, name, routes+routes/16); err != nil {
		return nil, delicate, fmt.Errorf("list routes: %w", err)
	}
	delicate.routes = s.datagrams > 1 // of IPv6, the last
	return k, delicate, nil
}

// rules lists the rules of both families in the order of lookup. It says whether
// those of a family came in more than one datagram.
func (s *socket) rules(ctx context.Context) (rules []routing.Rule, several bool, _ error) {
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
		several = several || s.datagrams > 1
		if err != nil {
			return nil, false, err
		}
	}
	return rules, several, nil
}

// routes lists the routes of every table of both families.
func (s *socket) routes(ctx context.Context, name func(int) (string, bool), room int) ([]routing.Route, error) {
	routes := make([]routing.Route, 0, room)
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
