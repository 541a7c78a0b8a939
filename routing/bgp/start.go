package bgp

import (
	"fmt"
	"net"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"

	"netclass.dev/routing"
)

// importPolicy lets only what we originate into the Loc-RIB.
const importPolicy = "import"

// start carries out the first order.
func (s *speaker) start(want *routing.Speak) ([]string, error) {
	s.bgp = server.NewBgpServer(server.LoggerOption(s.watch), server.TimingHookOption(s.watch))
	open := make(map[string]bool) // restarts that are not over; the serving goroutine's
	s.watch.onState = func(addr string, to routing.SessionState) {
		delete(open, addr)
		if adjust(neighborConf(s.bgp, addr), to, s.watch.isRestarting(addr)) {
			open[addr] = true
		}
		if to == routing.OpenSent {
			boundOpen(s.bgp, addr)
		}
		s.dialer.state(addr, to)
	}
	s.watch.onUp = func(addr string) { settled(neighborConf(s.bgp, addr)) }
	s.watch.onSend = func(addr string) {
		if open[addr] {
			restarted(neighborConf(s.bgp, addr))
		}
		delete(open, addr)
	}
	// GoBGP is told not to listen, and makes no channel of accepted connections
	// then. Both that we dial and that we accept come in there.
	accepted := make(chan *net.TCPConn)
	*acceptChannel(s.bgp) = accepted
	s.door = newDoor(&s.lines, s.dialer, accepted)
	s.dialer.accept, s.dialer.isOpen = accepted, s.door.isOpen
	go s.bgp.Serve()

	global := &api.Global{Asn: want.ASN, RouterId: want.RouterID.String(), ListenPort: -1}
	if err := s.bgp.StartBgp(background, &api.StartBgpRequest{Global: global}); err != nil {
		return nil, fmt.Errorf("start BGP: %w", err)
	}
	if err := s.closeLocRIB(); err != nil {
		return nil, err
	}
	s.want = &routing.Speak{}
	errs := s.reconcile(want)
	return errs, nil
}

// closeLocRIB keeps everything but what we originate out of the Loc-RIB, and so
// from being advertised to anyone.
func (s *speaker) closeLocRIB() error {
	policy := &api.Policy{Name: importPolicy, Statements: []*api.Statement{{
		Name:       importPolicy + "-local",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ACCEPT},
	}}}
	if err := s.bgp.AddPolicy(background, &api.AddPolicyRequest{Policy: policy}); err != nil {
		return fmt.Errorf("add import policy: %w", err)
	}
	for _, a := range []*api.PolicyAssignment{
		{Direction: api.PolicyDirection_IMPORT, Policies: []*api.Policy{policy}},
		{Direction: api.PolicyDirection_EXPORT},
	} {
		a.Name, a.DefaultAction = globalTable, api.RouteAction_REJECT
		if err := s.bgp.SetPolicyAssignment(background, &api.SetPolicyAssignmentRequest{Assignment: a}); err != nil {
			return fmt.Errorf("assign %s policy: %w", a.Direction, err)
		}
	}
	return nil
}

// globalTable is GoBGP's name for the Loc-RIB.
const globalTable = "global"

// reconcile makes what runs into what is wanted, touching only what differs.
// Announcements come before the neighbours that are to hear them, and are
// withdrawn before their neighbours go. It returns what could not be done.
func (s *speaker) reconcile(want *routing.Speak) []string {
	var errs []string
	note := func(err error) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	neighbors, dup := byAddress(want.Neighbors)
	errs = append(errs, dup...)
	for addr, p := range s.sessions {
		if n, ok := neighbors[addr]; !ok || n.Key != p.Key {
			note(s.removeNeighbor(p))
		}
	}
	for _, err := range s.announce(want) {
		note(err)
	}
	restarting := want.Restarting && s.want.ASN == 0 // on the first order only
	s.want = want
	s.door.listen(want.Listen, want.Port, time.Now())
	for addr, n := range neighbors {
		note(s.setNeighbor(addr, n, restarting))
	}
	return errs
}

// byAddress indexes neighbours by address. GoBGP knows one neighbour per
// address.
func byAddress(list []routing.Neighbor) (map[string]*routing.Neighbor, []string) {
	var errs []string
	m := make(map[string]*routing.Neighbor, len(list))
	for i := range list {
		n := &list[i]
		addr := n.Remote.String()
		if other, ok := m[addr]; ok {
			errs = append(errs, fmt.Sprintf("peer %s: address %s is peer %s's", n.Key, addr, other.Key))
			continue
		}
		m[addr] = n
	}
	return m, errs
}
