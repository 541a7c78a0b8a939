package bgp

import (
	"net"
	"reflect"
	"unsafe"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/config/oc"
	"github.com/osrg/gobgp/v3/pkg/server"

	"netclass.dev/routing"
)

// forever is a hold time in seconds that does not end, and whose nanoseconds
// still fit.
const forever = 1e9

// neighborConf returns GoBGP's own record of a neighbour, or nil. It is private
// there; v3 has no other way to two things that RFC 4724 and RFC 4271 want.
// Call it on the serving goroutine only.
func neighborConf(s *server.BgpServer, addr string) *oc.Neighbor {
	_, conf := neighborField[*oc.Neighbor](s, addr, "pConf")
	return conf
}

// queue is where messages wait to be written.
type queue interface{ Len() int }

// outgoing returns GoBGP's own object for a neighbour, and the queue of its
// session; nil when there is none. Call it on the serving goroutine only, which
// closes the queue and makes another when the session's state changes.
func outgoing(s *server.BgpServer, addr string) (peer unsafe.Pointer, q queue) {
	return neighborField[queue](s, addr, "outgoingCh")
}

// neighborField returns GoBGP's own object for a neighbour, and a field of its
// state machine as a T; nil when there is none.
func neighborField[T any](s *server.BgpServer, addr, name string) (peer unsafe.Pointer, field T) {
	peers := reflect.ValueOf(s).Elem().FieldByName("neighborMap")
	if peers.Kind() != reflect.Map {
		return nil, field
	}
	p := peers.MapIndex(reflect.ValueOf(addr))
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return nil, field
	}
	fsm := p.Elem().FieldByName("fsm")
	if fsm.Kind() != reflect.Pointer || fsm.IsNil() {
		return nil, field
	}
	f := fsm.Elem().FieldByName(name)
	if f.Kind() != reflect.Pointer || f.IsNil() {
		return nil, field
	}
	// A private field cannot be read but where it is.
	field, _ = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Interface().(T)
	return p.UnsafePointer(), field
}

// acceptChannel returns where GoBGP keeps the channel of accepted connections.
// It is changed by StartBgp alone, before the first neighbour is there.
func acceptChannel(s *server.BgpServer) *chan *net.TCPConn {
	field := reflect.ValueOf(s).Elem().FieldByName("acceptCh")
	if !field.IsValid() || field.Type() != reflect.TypeFor[chan *net.TCPConn]() {
		panic("this is not the GoBGP that the speaker was built for")
	}
	return (*chan *net.TCPConn)(unsafe.Pointer(field.UnsafeAddr()))
}

// adjust corrects a neighbour's record as its state changes. GoBGP calls it
// (through its log) with the neighbour's lock held, before the new state acts.
//
// The restart bits of the OPEN must be right for each neighbour on its own:
// GoBGP clears them for all once every neighbour that is up has sent its
// End-of-RIB, and those that come later would drop our routes.
//
// A peer that offers a hold time of 0 wants no timer. GoBGP writes with a
// deadline of that many seconds from now and fails at once.
func adjust(conf *oc.Neighbor, to routing.SessionState, restarting bool) {
	if conf == nil {
		return
	}
	gr := &conf.GracefulRestart
	switch to {
	case routing.Active:
		if conf.Config.NeighborAddress == placeholder && len(conf.AfiSafis) > 0 {
			st := &conf.AfiSafis[0].MpGracefulRestart.State
			st.Enabled, st.Received = true, true
		}
	case routing.OpenSent:
		gr.State.LocalRestarting = restarting && gr.Config.Enabled
	case routing.OpenConfirm:
		if t := &conf.Timers.State; t.NegotiatedHoldTime == 0 {
			t.NegotiatedHoldTime, t.KeepaliveInterval = forever, forever
		}
	case routing.Established:
		if !gr.State.Enabled {
			gr.State.LocalRestarting = false // the peer knows no restart
		}
	}
}

// settled is called once GoBGP has dealt with a message of the neighbour's
// session that has just come up. GoBGP ignores UPDATEs that came before the
// session was up, by the wall clock: when that is set back, all of them until
// it has caught up. It is on the serving goroutine, which alone looks at this.
func settled(conf *oc.Neighbor) {
	if conf != nil {
		conf.Timers.State.Uptime = 0
	}
}

// placeholder is the address of a neighbour that never comes, but is noted as
// one whose End-of-RIB is awaited. It keeps GoBGP from ending the restart of
// all neighbours at once, sending everything to everyone each time: each has
// its own end, see endRestart.
const placeholder = "0.0.0.1"

func addPlaceholder(s *server.BgpServer, asn uint32) error {
	return s.AddPeer(background, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: placeholder, PeerAsn: asn},
		Transport: &api.Transport{PassiveMode: true},
		AfiSafis:  []*api.AfiSafi{{Config: &api.AfiSafiConfig{Family: familyOf(routing.IPv4), Enabled: true}}},
	}})
}

// endRestart sends what we announce, and our End-of-RIB, to a neighbour whose
// session has come up after a restart. GoBGP would do so a second later (the
// shortest deferral), and does if this does not.
func (s *speaker) endRestart(p *session) {
	// The log line that it begins with is where the neighbour's restart is over
	// (see restarted): nothing else may change it.
	_ = s.bgp.ResetPeer(background, &api.ResetPeerRequest{Address: p.addr, Soft: true, Direction: api.ResetPeerRequest_OUT})
}

// restarted ends a neighbour's restart. It is called on the serving goroutine,
// the only one that looks at this while the session is up.
func restarted(conf *oc.Neighbor) {
	if conf != nil {
		conf.GracefulRestart.State.LocalRestarting = false
	}
}
