package kernel

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Linux marks a dump as interrupted for links and addresses only. Rules it goes
// on with by their number, and IPv6 routes by their number once the table has
// changed: an object that goes away between two datagrams of such a dump hides
// another one. So each dump is observed by a subscription of its own.

// observed is what changed while a dump was made.
type observed struct{ rules, routes bool }

// observe subscribes to what a dump could be disturbed by.
func (k *Kernel) observe() (*socket, error) {
	s, err := dialDirect(k.netns, 0, observeBuffer, 0)
	if err != nil {
		return nil, err
	}
	for _, group := range []uint32{unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_ROUTE} {
		if err := s.join(group); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// observeBuffer is small: the first event says enough.
const observeBuffer = 64 << 10

// seen returns what was observed so far, without waiting.
func (s *socket) seen() (o observed, err error) {
	for !o.rules || !o.routes {
		datagram, err := s.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return o, nil
		case errors.Is(err, unix.ENOBUFS):
			return observed{rules: true, routes: true}, nil
		case err != nil:
			return o, err
		}
		for m, err := range messages(datagram) {
			if err != nil {
				return o, err
			}
			rule := m.kind == unix.RTM_NEWRULE || m.kind == unix.RTM_DELRULE
			o.rules = o.rules || rule
			o.routes = o.routes || !rule
		}
	}
	return o, nil
}
