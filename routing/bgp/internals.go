package bgp

import (
	"net"
	"reflect"
	"time"
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
	peer, f := neighborPlace(s, addr, name)
	if f.Kind() != reflect.Pointer || f.IsNil() {
		return nil, field
	}
	// A private field cannot be read but where it is.
	field, _ = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Interface().(T)
	return peer, field
}

// neighborPlace returns GoBGP's own object for a neighbour, and where it has a field
// of its state machine; nil when there is none.
func neighborPlace(s *server.BgpServer, addr, name string) (peer unsafe.Pointer, place reflect.Value) {
	peers := reflect.ValueOf(s).Elem().FieldByName("neighborMap")
	if peers.Kind() != reflect.Map {
		return nil, place
	}
	p := peers.MapIndex(reflect.ValueOf(addr))
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return nil, place
	}
	fsm := p.Elem().FieldByName("fsm")
	if fsm.Kind() != reflect.Pointer || fsm.IsNil() {
		return nil, place
	}
	return p.UnsafePointer(), fsm.Elem().FieldByName(name)
}

// openTime is how long a peer that is connected has for its OPEN. RFC 4271 §8.2.2
// suggests four minutes: as long as a session would be away after its peer has lost
// power with the connection just made, or has had another TTL security or password
// for a while, since what it dials itself meanwhile is refused.
const openTime = 10 * time.Second

// boundOpen sets that time, and reports whether it could. GoBGP calls it (through
// its log) with the neighbour's lock held, before the new state acts.
func boundOpen(s *server.BgpServer, addr string) bool {
	_, f := neighborPlace(s, addr, "opensentHoldTime")
	if f.Kind() != reflect.Float64 {
		return false
	}
	*(*float64)(unsafe.Pointer(f.UnsafeAddr())) = openTime.Seconds()
	return true
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
// After a restart a peer keeps our old routes until our End-of-RIB, but drops at
// once those that it has not heard again when the session ends before that (RFC
// 4724 §4.2: a second restart). So it is told all when the session is up, and the
// End-of-RIB comes later, see restartPause. GoBGP knows only both at once, or with
// a peer without graceful restart the first alone: that is what such a session is
// until then. adjust reports whether it has made it so.
//
// A peer that offers a hold time of 0 wants no timer. GoBGP writes with a
// deadline of that many seconds from now and fails at once.
func adjust(conf *oc.Neighbor, to routing.SessionState, restarting bool) (open bool) {
	if conf == nil {
		return false
	}
	gr := &conf.GracefulRestart
	switch to {
	case routing.OpenSent:
		gr.State.LocalRestarting = restarting && gr.Config.Enabled
	case routing.OpenConfirm:
		if t := &conf.Timers.State; t.NegotiatedHoldTime == 0 {
			t.NegotiatedHoldTime, t.KeepaliveInterval = forever, forever
		}
	case routing.Established:
		open = gr.State.LocalRestarting && gr.State.Enabled // the peer knows restarts
		if open {
			gr.State.Enabled = false
		}
		gr.State.LocalRestarting = false
	}
	return open
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

// endRestart sends what we announce once more, and our End-of-RIB, to a neighbour
// whose session has come up after a restart.
func (s *speaker) endRestart(p *session) {
	// It begins with a log line, on the serving goroutine, at which restarted is
	// called: GoBGP then adds the End-of-RIB.
	_ = s.bgp.ResetPeer(background, &api.ResetPeerRequest{Address: p.addr, Soft: true, Direction: api.ResetPeerRequest_OUT})
}

// restarted ends what adjust has begun. It is called on the serving goroutine,
// the only one that looks at this while the session is up.
func restarted(conf *oc.Neighbor) {
	if conf != nil {
		conf.GracefulRestart.State.Enabled = true
	}
}
