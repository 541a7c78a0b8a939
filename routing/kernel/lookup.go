package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// lookupBatch is how many questions go out in one send. Their answers, about 200
// bytes each and bounded by the request for an error, fit the receive buffer
// many times.
const lookupBatch = 128

// rtmLookupTable (RTM_F_LOOKUP_TABLE) asks IPv4 for the table that decided.
const rtmLookupTable = 0x1000

// Lookup asks the stack where packets would go (RTM_GETROUTE, as `ip route get`
// does), many questions to a system call, and returns an answer for each flow.
// Not to reach a destination is an answer, not an error.
//
// What the kernel refuses for other reasons than routes looks like an answer of
// routes in IPv4: forwarding that is off on the incoming link is EHOSTUNREACH,
// a source that strict rp_filter refuses or that is the host's own EINVAL, a
// source that is not the host's own on a packet of the host itself ENETUNREACH.
// The code of the answer stays beside it.
func (k *Kernel) Lookup(ctx context.Context, flows []routing.Flow) ([]routing.Answer, error) {
	k.lookupMu.Lock()
	defer k.lookupMu.Unlock()
	if err := k.ready(ctx, &k.lookup); err != nil {
		return nil, fmt.Errorf("look up routes: %w", err)
	}
	links, err := k.lookup.links(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up routes: list links: %w", err)
	}
	index, name := make(map[string]int, len(links)), make(map[int]string, len(links))
	for i := range links {
		index[links[i].Name], name[links[i].Index] = links[i].Index, links[i].Name
	}
	answers := make([]routing.Answer, len(flows))
	for from := 0; from < len(flows); from += lookupBatch {
		if err := k.alive(ctx); err != nil {
			return nil, fmt.Errorf("look up routes: %w", err)
		}
		to := min(from+lookupBatch, len(flows))
		if err := k.lookup.lookups(flows[from:to], answers[from:to], index, name); err != nil {
			return nil, fmt.Errorf("look up routes: %w", err)
		}
	}
	return answers, nil
}

// lookups asks one batch.
func (s *socket) lookups(flows []routing.Flow, answers []routing.Answer, index map[string]int, name map[int]string) error {
	var b []byte
	place := make(map[uint32]int, len(flows)) // sequence number → flow
	for i, f := range flows {
		if reason := unanswerable(f, index); reason != "" {
			answers[i] = routing.Answer{Outcome: routing.OutcomeNoAnswer, Code: reason}
			continue
		}
		start := len(b)
		b = finish(appendLookup(s.request(b, unix.RTM_GETROUTE, 0), f, index), start)
		place[s.seq] = i
	}
	if len(place) == 0 {
		return nil
	}
	if err := s.send(b); err != nil {
		return err
	}
	for len(place) > 0 {
		datagram, err := s.receive()
		if err != nil {
			return err
		}
		for m, err := range messages(datagram) {
			if err != nil {
				s.broken = true
				return err
			}
			i, asked := place[m.seq]
			if !asked {
				continue
			}
			delete(place, m.seq)
			if m.kind == unix.NLMSG_ERROR {
				answers[i] = refusal(m.err())
			} else if answers[i], err = decodeAnswer(m.data, name); err != nil {
				s.broken = true
				return err
			}
		}
	}
	return nil
}

// unanswerable says why a flow cannot be put to the kernel at all; empty: it
// can.
func unanswerable(f routing.Flow, index map[string]int) string {
	for _, link := range []string{f.IIF, f.OIF} {
		if _, known := index[link]; link != "" && !known {
			return "no link " + link
		}
	}
	switch {
	case !f.Dst.IsValid():
		return "no destination"
	case f.Src.IsValid() && f.Src.Is4() != f.Dst.Is4():
		return "source and destination are of two families"
	case f.IIF != "" && !f.Src.IsValid() && f.Dst.Is4():
		// The kernel's EINVAL would look like a blackhole.
		return "a packet that arrives has a source"
	}
	return ""
}

// appendLookup encodes struct rtmsg and the flow.
func appendLookup(b []byte, f routing.Flow, index map[string]int) []byte {
	srcBits := uint8(0)
	if f.Src.IsValid() {
		srcBits = uint8(f.Src.BitLen())
	}
	b = append(b, familyNumber(f.Dst.Is4()), uint8(f.Dst.BitLen()), srcBits, 0, 0, 0, 0, 0)
	if f.Dst.Is4() {
		b = native.AppendUint32(b, rtmLookupTable)
	} else {
		b = native.AppendUint32(b, 0) // it always says so, and takes no such flag
	}
	b = appendAddr(b, unix.RTA_DST, f.Dst.WithZone(""))
	if f.Src.IsValid() {
		b = appendAddr(b, unix.RTA_SRC, f.Src.WithZone(""))
	}
	if f.IIF != "" {
		b = appendU32(b, unix.RTA_IIF, uint32(index[f.IIF]))
	}
	if f.OIF != "" {
		b = appendU32(b, unix.RTA_OIF, uint32(index[f.OIF]))
	}
	if f.Mark != 0 {
		b = appendU32(b, unix.RTA_MARK, f.Mark)
	}
	return b
}

// refusal reads an error as an answer: all reject routes are answered so. A
// lookup that no rule's table could answer is ENETUNREACH, as is a rule of type
// unreachable.
func refusal(err error) routing.Answer {
	var errno unix.Errno
	var refused *Error
	if !errors.As(err, &errno) || errors.As(err, &refused) && refused.Text != "" {
		// It does not understand the question.
		return routing.Answer{Outcome: routing.OutcomeNoAnswer, Code: fmt.Sprint(err)}
	}
	a := routing.Answer{Outcome: routing.OutcomeNoAnswer, Code: unix.ErrnoName(errno)}
	switch errno {
	case unix.ENETUNREACH:
		a.Outcome = routing.OutcomeNoRoute
	case unix.EHOSTUNREACH:
		a.Outcome = routing.OutcomeUnreachable
	case unix.EACCES:
		a.Outcome = routing.OutcomeProhibit
	case unix.EINVAL:
		a.Outcome = routing.OutcomeBlackhole
	}
	return a
}

var outcomes = map[uint8]routing.Outcome{
	unix.RTN_UNICAST: routing.OutcomeForward, unix.RTN_UNREACHABLE: routing.OutcomeUnreachable, unix.RTN_BLACKHOLE: routing.OutcomeBlackhole,
	unix.RTN_PROHIBIT: routing.OutcomeProhibit, unix.RTN_THROW: routing.OutcomeNoRoute,
}

// decodeAnswer reads struct rtmsg of an answer. Unlike a route's, its
// destination is the address asked for.
func decodeAnswer(b []byte, name map[int]string) (routing.Answer, error) {
	if len(b) < unix.SizeofRtMsg {
		return routing.Answer{}, fmt.Errorf("decode answer: %w", errShort)
	}
	a := routing.Answer{Table: routing.TableID(b[4]), Outcome: routing.OutcomeLocal}
	if o, known := outcomes[b[7]]; known {
		a.Outcome = o
	}
	var nh hop
	for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_TABLE:
			a.Table = routing.TableID(u32(v))
		case unix.RTA_OIF:
			nh.index = int(u32(v))
		case unix.RTA_GATEWAY:
			nh.via = addr(v)
		case unix.RTA_VIA:
			nh.via = decodeVia(v)
		case unix.RTA_PREFSRC:
			a.Src = addr(v)
		case unix.RTA_METRICS:
			a.MTU = decodeMTU(v)
		}
	}
	switch a.Outcome {
	case routing.OutcomeForward:
		a.Link, a.Via = name[nh.index], nh.via
	case routing.OutcomeLocal:
		a.Link = name[nh.index]
	default: // IPv6 shows lo, where it keeps reject routes
		a.Src = netip.Addr{}
	}
	return a, nil
}
