package speakerv1

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

// Limits of one message. An order holds everything that is wanted (5,000 nodes
// are about 2 MiB); a report holds one part of one session, or a line for each
// (with names as long as Kubernetes has them, 3 MiB).
const (
	MaxOrder  = 32 << 20
	MaxReport = 4 << 20
)

// errEmpty is a message with nothing in it: no sender writes one.
var errEmpty = errors.New("empty message")

// Reader is what messages are read from; a bufio.Reader is one.
type Reader = protodelim.Reader

// WriteOrder writes one order.
func WriteOrder(w io.Writer, o *Order) error { return write(w, o) }

// WriteReport writes one report.
func WriteReport(w io.Writer, r *Report) error { return write(w, r) }

// ReadOrder reads one order. The error is io.EOF when the daemon has closed its
// end between two messages.
func ReadOrder(r Reader) (*Order, error) {
	o := new(Order)
	if err := read(r, o, MaxOrder); err != nil {
		return nil, err
	}
	if o.Order == nil {
		return nil, errEmpty
	}
	return o, nil
}

// ReadReport reads one report. The error is io.EOF when the speaker has closed
// its end between two messages.
func ReadReport(r Reader) (*Report, error) {
	p := new(Report)
	if err := read(r, p, MaxReport); err != nil {
		return nil, err
	}
	if p.Report == nil {
		return nil, errEmpty
	}
	return p, nil
}

func write(w io.Writer, m proto.Message) error {
	_, err := protodelim.MarshalTo(w, m)
	return err
}

func read(r Reader, m proto.Message, limit int64) error {
	if err := (protodelim.UnmarshalOptions{MaxSize: limit}).UnmarshalFrom(r, m); err != nil {
		return err
	}
	// Both ends are one build: what is unknown is garbage, not the future.
	if n := len(m.ProtoReflect().GetUnknown()); n > 0 {
		return fmt.Errorf("%d bytes of unknown fields", n)
	}
	return nil
}
