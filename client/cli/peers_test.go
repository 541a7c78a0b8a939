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

// TestAnnouncements: each prefix with what the peer is sent, and how many there are
// where the daemon lists fewer.
func TestAnnouncements(t *testing.T) {
	var out bytes.Buffer
	(&app{env: Env{Out: &out, Now: time.Now}}).peerDetail(&pb.Peer{
		State: pb.SessionState_SESSION_STATE_ESTABLISHED, Announced: 3,
		Announcements: []*pb.Announcement{
			{Prefix: "10.47.64.0/24", NextHop: "10.47.0.1", Med: 10, Prepend: 2, LocalPreference: 200, Communities: []string{"65535:0", "64512:1:20"}},
			{Prefix: "10.47.65.1/32", NextHop: "10.47.0.1"},
		},
	})
	want := "  Announced\n" +
		"    10.47.64.0/24 via 10.47.0.1, local preference 200, MED 10, prepended 2, community 65535:0 64512:1:20\n" +
		"    10.47.65.1/32 via 10.47.0.1\n" +
		"    and 1 more\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
