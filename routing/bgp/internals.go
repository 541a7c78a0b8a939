package bgp

import (
	"net"
	"reflect"
	"unsafe"

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
	peers := reflect.ValueOf(s).Elem().FieldByName("neighborMap")
	if peers.Kind() != reflect.Map {
		return nil
	}
	peer := peers.MapIndex(reflect.ValueOf(addr))
	if peer.Kind() != reflect.Pointer || peer.IsNil() {
		return nil
	}
	fsm := peer.Elem().FieldByName("fsm")
	if fsm.Kind() != reflect.Pointer || fsm.IsNil() {
		return nil
	}
	conf := fsm.Elem().FieldByName("pConf")
	if conf.Type() != reflect.TypeFor[*oc.Neighbor]() {
		return nil
	}
	return (*oc.Neighbor)(conf.UnsafePointer())
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
// GoBGP clears them for all as soon as the first one has sent its End-of-RIB,
// and the others would drop our routes. Once a session is up nothing has to be
// deferred: what we announce does not depend on what peers say.
//
// A peer that offers a hold time of 0 wants no timer. GoBGP writes with a
// deadline of that many seconds from now and fails at once.
func adjust(conf *oc.Neighbor, to routing.SessionState, restarting bool) {
	if conf == nil {
		return
	}
	switch to {
	case routing.OpenSent:
		conf.GracefulRestart.State.LocalRestarting = restarting && conf.GracefulRestart.Config.Enabled
	case routing.OpenConfirm:
		if t := &conf.Timers.State; t.NegotiatedHoldTime == 0 {
			t.NegotiatedHoldTime, t.KeepaliveInterval = forever, forever
		}
	case routing.Established:
		conf.GracefulRestart.State.LocalRestarting = false
	}
}
