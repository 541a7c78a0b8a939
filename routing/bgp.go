package routing

import (
	"net/netip"
	"time"
)

// SessionKey names one BGP session: a peer (a node's or an upstream's name) and
// a family.
type SessionKey struct {
	Peer   string
	Family Family
}

func (k SessionKey) String() string { return k.Peer + "/" + k.Family.String() }

// Neighbor is a session we want.
type Neighbor struct {
	Key         SessionKey
	Upstream    bool // a router, not a member of the mesh
	Link        string
	Local       netip.Addr
	Remote      netip.Addr
	PeerASN     uint32
	Passive     bool // the other side dials; we accept all the same
	Password    Secret
	GTSM        bool
	Multihop    uint8 // TTL; 0: single hop
	Timers      Timers
	RestartTime time.Duration // graceful restart; 0: off
	MaxPrefixes uint32        // 0: none may come (upstreams without import)
}

// Secret is a password. It never prints itself.
type Secret string

func (Secret) String() string   { return "(secret)" }
func (Secret) GoString() string { return "(secret)" }

// MarshalText keeps a secret out of JSON and logs too.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Listen is an address the speaker accepts connections on, bound to its link.
type Listen struct {
	Addr netip.Addr
	Link string
}

// Announcement is a prefix we originate towards the mesh (To empty) or an
// upstream (To its name).
type Announcement struct {
	Prefix          netip.Prefix
	NextHop         netip.Addr
	To              string
	Communities     []string
	LocalPreference uint32 // 0: not sent (iBGP: 100)
	MED             uint32 // 0: not sent
	Prepend         uint8
}

// Speak is everything the speaker is to do. Equal values mean that there is
// nothing to tell it.
type Speak struct {
	ASN       uint32
	RouterID  netip.Addr
	Port      uint16
	Listen    []Listen // empty: only dial
	Neighbors []Neighbor
	Announce  []Announcement
	// Restarting is set on a speaker's first order when the kernel kept our
	// routes since the last one: peers then keep theirs (RFC 4724 R and F bits).
	Restarting bool
}

// SessionState is a state of RFC 4271's finite state machine.
type SessionState uint8

// The states of RFC 4271 §8.2.2.
const (
	Idle SessionState = iota
	Connect
	Active
	OpenSent
	OpenConfirm
	Established
)

var sessionStateNames = [...]string{"Idle", "Connect", "Active", "OpenSent", "OpenConfirm", "Established"}

func (s SessionState) String() string { return sessionStateNames[s] }

// DownCause is why a session ended.
type DownCause uint8

// The causes that differ in what becomes of the peer's routes.
const (
	CauseNone       DownCause = iota // it never was up
	CauseConnection                  // TCP closed or failed, or our speaker died
	CauseHoldTimer                   // the hold timer expired
	CauseCease                       // CEASE, sent or received
	CauseError                       // another NOTIFICATION, sent or received
)

var downCauseNames = [...]string{"none", "connection lost", "hold timer expired", "cease", "protocol error"}

func (c DownCause) String() string { return downCauseNames[c] }

// Path is a prefix in a peer's Adj-RIB-In.
type Path struct {
	Prefix      netip.Prefix
	NextHop     netip.Addr
	NoAdvertise bool // it carries NO_ADVERTISE (RFC 1997)
	Notes       Notes
}

// Session is what the speaker says of one session.
type Session struct {
	Key      SessionKey
	State    SessionState
	Since    time.Time // of the present state's class: up since, or down since
	EndOfRIB bool      // since it was last established
	Cause    DownCause // of the last end
	Detail   string    // for people: "Cease/Administrative Shutdown received"
	// PeerRestartTime is what the peer offered; 0: no graceful restart.
	PeerRestartTime time.Duration
	Received        uint32 // prefixes in its Adj-RIB-In, also beyond the limit
	// Doubt says that the session is Established, but that the peer's kernel has
	// not answered on its connection for longer than a living one takes.
	Doubt bool
	// RouterID is the peer's BGP identifier; zero while it is not Established.
	RouterID netip.Addr
	// Unsent counts what the peer's kernel has not acknowledged yet: messages that
	// wait in the speaker, and bytes in the TCP send queue.
	Unsent uint32
	Paths  []Path
}

// Peering is what the planner may build on for one session: the paths that
// count now, live or held. Of a router that nothing may come from there are none.
type Peering struct {
	Key   SessionKey
	Paths []Path
	// Synced is false while the peer may still say something that it said
	// before: until end-of-RIB, or until its restart time is over.
	Synced bool
	Held   bool // the session is down, its paths still count
	// RouterID is the peer's BGP identifier; zero while the session is not
	// Established.
	RouterID netip.Addr
	// Why is for people: why there are no paths that count; empty where the peer
	// has not announced any.
	Why string
}
