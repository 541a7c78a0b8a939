package bgp

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
)

// TestEndIsSeenWhileBusy: a main loop that takes up no order keeps nobody from seeing
// that the daemon has gone, and finds the newest order when it comes to it.
func TestEndIsSeenWhileBusy(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for seq := range uint64(3) {
		if err := speakerv1.WriteOrder(&b, &speakerv1.Order{Sequence: seq + 1, Order: &speakerv1.Order_Stop{Stop: &speakerv1.Stop{}}}); err != nil {
			t.Fatal(err)
		}
	}
	orders, end := make(chan *speakerv1.Order, 1), make(chan error, 1)
	go func() { end <- receive(&b, orders) }()
	select {
	case err := <-end:
		if o := <-orders; !errors.Is(err, io.EOF) || o.GetSequence() != 3 {
			t.Errorf("%v after order %d", err, o.GetSequence())
		}
	case <-time.After(10 * time.Second):
		t.Error("the end is not seen")
	}
}
