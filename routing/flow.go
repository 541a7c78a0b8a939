package routing

import "net/netip"

// Flow is a packet whose way is asked for, in the kernel or in a model of it.
type Flow struct {
	Dst netip.Addr
	Src netip.Addr // zero: none chosen yet, as for a socket's first lookup
	IIF string     // the link it arrived by; empty: made by the host itself
	// OIF is the link that the sending socket is bound to. It means nothing for a
	// packet that arrived by a link.
	OIF  string
	Mark uint32
}

// Outcome is what becomes of a packet.
type Outcome uint8

// The outcomes. NoAnswer is the kernel not saying: a link that is not there, or
// a refusal that has nothing to do with routes.
const (
	OutcomeNoRoute Outcome = iota
	OutcomeForward         // sent by a link
	OutcomeLocal           // delivered here
	OutcomeUnreachable
	OutcomeBlackhole
	OutcomeProhibit
	OutcomeNoAnswer
)

var outcomeNames = [...]string{"no route", "forward", "local", "unreachable", "blackhole", "prohibit", "no answer"}

func (o Outcome) String() string { return outcomeNames[o] }

// Answer is what was said of one flow.
type Answer struct {
	Outcome Outcome
	Link    string     // of Forward and Local
	Via     netip.Addr // next hop; zero: the destination is on the link
	Src     netip.Addr // the source address that a packet without one gets; zero: not said
	Table   TableID    // that decided; 0: not said
	MTU     uint32     // of the route; 0: the link's
	Code    string     // the kernel's own word for what is no route: "EHOSTUNREACH"
}

// String gives the answer in a few words: "pod0 via 10.48.0.2".
func (a Answer) String() string {
	switch {
	case a.Outcome == OutcomeForward && a.Via.IsValid():
		return a.Link + " via " + a.Via.String()
	case a.Outcome == OutcomeForward:
		return a.Link
	case a.Outcome == OutcomeNoAnswer && a.Code != "":
		return a.Outcome.String() + " (" + a.Code + ")"
	}
	return a.Outcome.String()
}
