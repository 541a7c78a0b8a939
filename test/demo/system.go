package main

import (
	"context"

	"netclass.dev/test/lab"
)

// system is what keeps the classes apart on the nodes: netclassd, or rules and
// BIRD set up by hand. Both go through the same faults.
type system interface {
	name() string
	daemon() string // what runs on each node
	start(ctx context.Context, n *lab.Node) error
	restart(n *lab.Node) error // SIGTERM, and started again
	kill(n *lab.Node) error    // SIGKILL, and started again
	killSpeaker(n *lab.Node) error
	stop(n *lab.Node) error // for good
}

// netclass runs a netclassd on each node, with the seed's configuration.
type netclass struct{ daemons map[*lab.Node]*lab.Netclassd }

func (*netclass) name() string   { return "with netclass" }
func (*netclass) daemon() string { return "netclassd" }

func (s *netclass) start(_ context.Context, n *lab.Node) error {
	d, err := n.StartNetclassd(lab.NetclassdOptions{})
	if err != nil {
		return err
	}
	if s.daemons == nil {
		s.daemons = map[*lab.Node]*lab.Netclassd{}
	}
	s.daemons[n] = d
	return nil
}

func (s *netclass) restart(n *lab.Node) error { return s.daemons[n].Restart() }

func (s *netclass) kill(n *lab.Node) error {
	if err := s.daemons[n].Kill(); err != nil {
		return err
	}
	return s.daemons[n].Start()
}

func (s *netclass) killSpeaker(n *lab.Node) error { return s.daemons[n].KillSpeaker() }

func (s *netclass) stop(n *lab.Node) error { return s.daemons[n].Stop() }

// byHand is the same separation made by hand: standing rules, and BIRD.
type byHand struct{ daemons map[*lab.Node]*lab.BIRD }

func (*byHand) name() string   { return "set up by hand" }
func (*byHand) daemon() string { return "BIRD" }

func (s *byHand) start(ctx context.Context, n *lab.Node) error {
	b, err := n.StartHandMade(ctx)
	if err != nil {
		return err
	}
	if s.daemons == nil {
		s.daemons = map[*lab.Node]*lab.BIRD{}
	}
	s.daemons[n] = b
	return nil
}

func (s *byHand) restart(n *lab.Node) error {
	if err := s.daemons[n].Stop(); err != nil {
		return err
	}
	return s.daemons[n].Start()
}

func (s *byHand) kill(n *lab.Node) error {
	if err := s.daemons[n].Kill(); err != nil {
		return err
	}
	return s.daemons[n].Start()
}

// killSpeaker kills BIRD: it speaks BGP and writes the routes in one process.
func (s *byHand) killSpeaker(n *lab.Node) error { return s.kill(n) }

func (s *byHand) stop(n *lab.Node) error { return s.daemons[n].Stop() }
