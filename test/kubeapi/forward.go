package kubeapi

import (
	"net"

	"netclass.dev/test/netns"
)

// Forward makes the API server reachable inside a network namespace, at the
// address and port that it has outside, until the test ends: one kubeconfig is
// good for all.
func (s *Server) Forward(ns *netns.NS) *Relay {
	s.t.Helper()
	var inside net.Listener
	err := ns.Do(func() (err error) {
		inside, err = net.Listen("tcp", s.address())
		return err
	})
	if err != nil {
		s.t.Fatalf("forward to the API server: %v", err)
	}
	return s.Relay(s.t, inside)
}
