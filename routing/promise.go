package routing

import (
	"net/netip"
	"time"
)

// Verdict is what a packet's way is, held against the class that it belongs to.
type Verdict string

// The verdicts.
const (
	VerdictOK          Verdict = "OK"
	VerdictWrongLink   Verdict = "WRONG LINK"  // another link than the class's, although its own is there; or a router
	VerdictUnreachable Verdict = "UNREACHABLE" // it goes nowhere
	VerdictShared      Verdict = "SHARED"      // another link of the cluster, because the class's own path is away
)

// LookupStep is one rule on a packet's way.
type LookupStep struct {
	Rule  Rule
	Match bool
	Why   string  // why it did not match, or what came of it
	Route *Route  // what the table answered; nil: nothing
	Beat  []Route // what that route was preferred to
}

// Question is a flow as people ask for it.
type Question struct {
	// Dst and Src are addresses, names of nodes, or pod, node, world, vip for a
	// real sample. An empty Src is a packet of this node that has none yet.
	Dst, Src string
	In       string // the link it arrives by; empty: follows from Src
	Mark     uint32
	Family   Family // 0: both that the question can be asked in
}

// Explanation is the way of one packet.
type Explanation struct {
	Flow     Flow
	Src, Dst string // what they are: "pod of k8s-1"
	Steps    []LookupStep
	Model    Answer // by the rules and routes that were read
	EBPF     Answer // likewise, as bpf_fib_lookup goes by them; OutcomeNoAnswer for a packet of the host's own
	Kernel   Answer // the kernel's own
	// Disagreement is how the kernel's answer is another than its rules and
	// routes give; empty: it is not.
	Disagreement string
	Class, Link  string // whose traffic it is, and that class's link; empty: no class's
	Traffic      Traffic
	Verdict      Verdict
	Reason       string // for people
	Failed       bool   // something is wrong, rather than as it has to be
}

// PromiseState is how a promise stands.
type PromiseState string

// The states of a promise, from the best to the worst.
const (
	PromiseHeld     PromiseState = "HELD"
	PromiseWaiting  PromiseState = "WAITING" // there is no way yet, and none is promised
	PromiseShared   PromiseState = "SHARED"  // by another link of the cluster, because the class's own path is away
	PromiseViolated PromiseState = "VIOLATED"
)

// Promise is one traffic of a class in one family: that its flows leave by the
// class's link.
type Promise struct {
	Class, Link string
	Traffic     Traffic
	Family      Family
	State       PromiseState
	Reason      string // for people, of the worst flow
	// Flows is one for each peer's address of the kind; Checked those that the
	// kernel was asked about this time, of which so many stand otherwise.
	Flows, Checked, Waiting, Shared, Violated int
}

// RouterProof says whether a router can come to carry cluster traffic: the
// cluster's networks must be guarded and fenced, and no answer of the kernel to
// the worst case of each may lead to a router.
type RouterProof struct {
	Proven bool
	// Misrouted says that an answer led to a router.
	Misrouted bool
	// ByChoice says that it is not proven because the configuration, or what this
	// node lacks, asks for no more.
	ByChoice bool
	Reason   string   // why not
	Covers   []string // what was asked for, for people
	Flows    int
	Checked  int
}

// Verification is the newest look at what the classes promise.
type Verification struct {
	At   time.Time
	Took time.Duration
	// Sequence is the state that it goes by.
	Sequence uint64
	Promises []Promise
	Router   RouterProof
	// Flows there are, and so many were checked this time. A large cluster's are
	// checked in turn, each within the time.
	Flows, Checked int
	Within         time.Duration
	// Troubled are flows that did not stand well; they are checked every time.
	Troubled []Flow
}

// Sources and destinations that a Question may ask for a sample of.
const (
	SamplePod   = "pod"
	SampleNode  = "node"
	SampleWorld = World
	SampleVIP   = "vip"
)

// WorldSamples are addresses of the world that nobody uses (RFC 5737, RFC 3849,
// RFC 9637), for lookups that stand for any other.
var WorldSamples = []netip.Addr{
	netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("203.0.113.1"),
	netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("3fff::1"),
}

// BadQuestion is the error of a question that cannot be answered as it is put.
type BadQuestion struct {
	Field, Problem string
	Missing        string // the name of what does not exist; empty: that is not the problem
}

func (e *BadQuestion) Error() string { return e.Field + ": " + e.Problem }
