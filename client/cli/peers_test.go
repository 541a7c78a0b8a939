package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	pb "netclass.dev/proto/netclass/v1"
)

// TestWhy: nothing is said twice, nor what is over.
func TestWhy(t *testing.T) {
	for _, test := range []struct {
		peer *pb.Peer
		want string
	}{
		{&pb.Peer{LastDownCause: pb.DownCause_DOWN_CAUSE_HOLD_TIMER, LastError: "hold timer expired"}, "hold timer expired"},
		{&pb.Peer{LastDownCause: pb.DownCause_DOWN_CAUSE_CEASE, LastError: "Cease/Administrative Shutdown received"}, "Cease/Administrative Shutdown received"},
		{&pb.Peer{LastDownCause: pb.DownCause_DOWN_CAUSE_CONNECTION, LastError: "read: EOF", Reason: "read: EOF"}, "connection lost: read: EOF"},
		{&pb.Peer{LastDownCause: pb.DownCause_DOWN_CAUSE_CONNECTION, LastError: "read: EOF", State: pb.SessionState_SESSION_STATE_ESTABLISHED}, ""},
		{&pb.Peer{Reason: "it does not answer", LastError: "read: EOF", State: pb.SessionState_SESSION_STATE_ESTABLISHED}, "it does not answer"},
	} {
		if got := why(test.peer); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
		var out bytes.Buffer
		(&app{env: Env{Out: &out, Now: time.Now}}).peerDetail(test.peer)
		if down := test.peer.GetState() != pb.SessionState_SESSION_STATE_ESTABLISHED; strings.Contains(out.String(), "Last error") != down {
			t.Errorf("of one that is down (%v):\n%s", down, out.String())
		}
	}
}

// TestVia: what is no way to somewhere is called what it is.
func TestVia(t *testing.T) {
	for typ, want := range map[pb.RouteType]string{
		pb.RouteType_ROUTE_TYPE_UNICAST: "10.0.0.1", pb.RouteType_ROUTE_TYPE_UNREACHABLE: "unreachable", pb.RouteType_ROUTE_TYPE_BROADCAST: "broadcast",
		pb.RouteType_ROUTE_TYPE_MULTICAST: "multicast", pb.RouteType_ROUTE_TYPE_ANYCAST: "anycast",
	} {
		if got := via(&pb.Route{Type: typ, NextHop: "10.0.0.1"}); got != want {
			t.Errorf("%s: %q, want %q", typ, got, want)
		}
	}
}
