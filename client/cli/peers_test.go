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
