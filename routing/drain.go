package routing

import (
	"errors"
	"net/netip"
	"time"
)

// DrainStep is how far a node has been taken out. Each step includes those
// before it; a drain goes up the steps, an undrain down.
type DrainStep uint8

// The steps of a drain, in order.
const (
	DrainNone     DrainStep = iota
	DrainClaim              // the others are told; nothing else has changed
	DrainShutdown           // routers are told GRACEFUL_SHUTDOWN (RFC 8326)
	DrainUpstream           // nothing is announced to routers
	DrainMesh               // own pod CIDRs are withdrawn from the mesh
	DrainDefault            // the default is out
	DrainPaths              // the class paths are out
)

var drainStepNames = [...]string{"none", "claim", "graceful shutdown", "upstream withdrawn", "mesh withdrawn", "default out", "class paths out"}

func (s DrainStep) String() string { return drainStepNames[s] }

// Draining is what the planner is told of a drain of this node.
type Draining struct {
	Step DrainStep
	// Phase is where it stands: with DrainDone what is taken out is said to be so,
	// before and afterwards to be on the way.
	Phase DrainPhase
	// Classes are those taken out; empty: every one whose link carries a class
	// path, a default or a session with a router.
	Classes    []string
	KeepEgress bool // the default stays
	// Marker has the mesh told by BGP that this node is drained: where no
	// Kubernetes API keeps the lock.
	Marker bool
	// Overridden: it was undrained by hand though its Node is cordoned, and that is not
	// followed.
	Overridden bool
}

// DrainRequest is what somebody asks for.
type DrainRequest struct {
	ID         string // unique
	Node       string
	Undrain    bool
	Reason     string
	Classes    []string       // empty: all
	Grace      *time.Duration // nil: as configured
	Wait       *time.Duration // nil: as configured
	KeepEgress bool
	Force      bool
	Holder     string // with Force: the node whose lock is taken from it
	By         string // the caller, for people: "uid 0 (netclassctl, pid 812)"
	Cordon     bool   // asked for by the Node's own spec.unschedulable
	DryRun     bool   // over the lease: only what it costs, and whether it is safe
	At         time.Time
}

// DrainPhase is where a drain stands.
type DrainPhase string

// The phases of a drain.
const (
	DrainWaiting DrainPhase = "Waiting" // a cordoned node that may not be drained yet
	DrainGoing   DrainPhase = "Draining"
	DrainDone    DrainPhase = "Drained"
	DrainUndoing DrainPhase = "Undraining"
	DrainBack    DrainPhase = "RollingBack" // it failed half-way
	DrainEnded   DrainPhase = "Undrained"   // undrained, or rolled back: nothing is left of it
)

// Doing names the phase of a drain that has begun in a sentence: a node is "drained".
func (p DrainPhase) Doing() string {
	switch p {
	case DrainDone:
		return "drained"
	case DrainUndoing, DrainBack:
		return "being undrained"
	}
	return "being drained"
}

// DrainProgress is one report of a drain.
type DrainProgress struct {
	Phase   DrainPhase
	Step    DrainStep
	Message string     // for people, in one line
	Costs   []string   // what it costs, said before it starts
	Rates   []LinkRate // while the links are watched for quiet
	At      time.Time
	// Error is why it ended without success; with it or with DrainDone or
	// DrainEnded the report is the last.
	Error string
	// Failure is what kind of error that is.
	Failure DrainFailure
}

// DrainFailure says of the error of a drain what the text of it does not: to other
// nodes, and to the next run. The zero value is an error like any other.
type DrainFailure struct {
	Refused  []string     // of a Refused: its reasons
	Question *BadQuestion // of something that cannot be asked for
	Late     bool         // it took longer than it may
	// Unreported: the error is all that there is to say. Nothing of it is a report.
	Unreported bool
}

// Final reports whether nothing comes after this report.
func (p *DrainProgress) Final() bool {
	return p.Error != "" && p.Phase != DrainWaiting && p.Phase != DrainBack || p.Phase == DrainDone || p.Phase == DrainEnded
}

// LinkRate is how much passes over a link, in packets per second.
type LinkRate struct {
	Link           string
	Received, Sent float64
}

// LinkCounters are the packets that have passed over a link since it was made.
type LinkCounters struct {
	Received, Sent uint64
	// Multicast are those of Received that were sent to a group, as far as the link
	// counts them.
	Multicast uint64
}

// DrainStatus is how the drain of a node stands.
type DrainStatus struct {
	Request  DrainRequest
	Progress DrainProgress
	Since    time.Time // of the phase
	// Lock says who keeps others from draining meanwhile, for people: "lease
	// kube-system/netclass-drain", "marker 10.48.0.3 in BGP", or why nobody does.
	Lock string
}

// Final reports whether nothing comes after this status: to a dry run there is but one
// answer.
func (s *DrainStatus) Final() bool { return s.Request.DryRun || s.Progress.Final() }

// DrainLease is the lock that lets one node of a Kubernetes cluster be drained at
// a time, and carries what is asked of other nodes and how they answer.
type DrainLease struct {
	Holder   string        // HolderIdentity: "NODE-UID/DRAIN-ID"; empty: it is free
	Request  *DrainRequest // the newest; nil: none
	Status   *DrainStatus  // of the holder, or of who carries out the request; nil: none
	Version  string        // resourceVersion
	Unusable string        // why it cannot be read or does not exist; empty: it is as said
	// Malformed says what of Request and Status cannot be read and is ignored;
	// Holder holds all the same.
	Malformed string
}

// ErrDrainConflict says that the lock has been written by somebody else since it
// was read.
var ErrDrainConflict = errors.New("the drain lease has been changed by another meanwhile")

// Refused is why a node must not be drained now. It names every reason.
type Refused struct{ Reasons []string }

func (r *Refused) Error() string {
	text := "not safe to drain: "
	for i, reason := range r.Reasons {
		if i > 0 {
			text += "; "
		}
		text += reason
	}
	return text
}

// DrainMarker returns the prefix that a drained node announces in a family, with
// NO_ADVERTISE, where there is no Kubernetes API: its BGP identifier as a host
// route. In IPv6 it is the last four bytes of an address of the discard prefix
// (RFC 6666). It is never installed.
func DrainMarker(routerID netip.Addr, f Family) netip.Prefix {
	if !routerID.Is4() {
		return netip.Prefix{}
	}
	if f == IPv4 {
		return netip.PrefixFrom(routerID, 32)
	}
	discard := netip.MustParseAddr("100::").As16()
	id := routerID.As4()
	copy(discard[12:], id[:])
	return netip.PrefixFrom(netip.AddrFrom16(discard), 128)
}
