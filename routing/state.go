package routing

import "time"

// Health is how an object stands.
type Health string

// The healths of classes, tables and the daemon.
const (
	Ready     Health = "Ready"     // as configured
	Shared    Health = "Shared"    // some traffic uses another link of the cluster
	Waiting   Health = "Waiting"   // something it needs is not there yet
	Drained   Health = "Drained"   // taken out by a drain of this node, which is done
	Delegated Health = "Delegated" // the link is in a pod's namespace
	Degraded  Health = "Degraded"  // an op failed, or an input is not readable
	IdleState Health = "Idle"      // no configuration
	// DrainingState: a drain of this node is taking it out, or putting it back.
	DrainingState Health = "Draining"
)

// TakenOut reports whether a drain of this node has taken something out, be that done
// or under way.
func (h Health) TakenOut() bool { return h == Drained || h == DrainingState }

// Condition is one thing that is not as it should be.
type Condition struct {
	Object  string // "class/pod-pod", "table/pods", "peer/k8s-2/ipv4", "config", "inventory", "speaker", "kernel"
	Reason  string // CamelCase, for programs
	Message string // for people
	// Since is filled in by the engine; planner and diff leave it zero.
	Since time.Time
}

// ClassStatus is how a class stands.
type ClassStatus struct {
	Class  Class
	Health Health
	Reason string
	// KernelVLAN is the VLAN that the kernel shows for the link; 0: none or
	// unknown.
	KernelVLAN int
	// Peers counts the peers' pod CIDRs that the class carries; Separated those
	// on the class link, Fallback those on another.
	Peers, Separated, Fallback int
}

// TableStatus is how a table stands.
type TableStatus struct {
	Name      string
	ID        TableID
	Health    Health
	Reason    string
	Waiting   []string // objects that wait, with the reason
	RulesText []string // the rules that select it, as `ip rule` shows them
}

// Refusal is a path that was not accepted.
type Refusal struct {
	Path   Path
	Reason string
}

// PeerStatus is how one session stands, joined from the plan and the speaker.
type PeerStatus struct {
	Neighbor     Neighbor
	Session      Session
	Held         bool
	HeldTill     time.Time
	Accepted     []Path
	Refused      []Refusal // bounded; RefusedCount is the whole number
	RefusedCount uint32
	Aside        uint32 // paths that are left aside for the time being, not refused
	Reason       string // why there is no session
	Notes        Notes  // while it is Established
}

// State is what the daemon publishes after every pass. It is immutable.
type State struct {
	Version  string
	Node     string
	Now      time.Time // when it was made
	Started  time.Time
	Sequence uint64 // of the pass
	Health   Health

	Config    ConfigStatus
	Inventory Inventory
	Pass      PassStatus
	Speaker   SpeakerStatus

	Plan       *Plan
	Kernel     *Kernel
	Peers      []PeerStatus
	Pending    []Op // what the next pass would do
	Conditions []Condition
	// Drain is how the drain of this node stands; nil: there is none.
	Drain *DrainStatus
	// Announced is what the speaker was last told to originate.
	Announced []Announcement
	// Verified is the newest look at the promises; nil: none yet.
	Verified *Verification
}

// ConfigStatus is how the configuration stands.
type ConfigStatus struct {
	Path     string
	LoadedAt time.Time // of the one in force
	Error    string    // why the newest file is not in force
	Config   *Config   // in force; nil: none yet
	// Unread says of each password file that could not be read why not.
	Unread map[string]string
}

// PassStatus is about the newest pass.
type PassStatus struct {
	Passes, Dumps uint64
	At            time.Time
	Took          time.Duration
	Ops           int    // in the newest pass
	Applied       uint64 // ops since start
	Failed        uint64
	Error         string
	Synced        bool // every input has been read and the kernel is as planned
}

// SpeakerStatus is how the speaker process stands.
type SpeakerStatus struct {
	Wanted   bool
	PID      int
	Since    time.Time
	Restarts uint64
	LastExit string
	Errors   []string // what it cannot do at the moment: "listen 10.48.0.1:179: address already in use by bird (pid 812)"
	// Confirmed says that it runs and has carried out the newest order.
	Confirmed bool
}
