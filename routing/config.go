package routing

import (
	"net/netip"
	"slices"
	"time"
)

// World is the reserved network name for every address in no named network.
const World = "world"

// MainTable is the name and ID of the kernel's main table.
const (
	MainTable         = "main"
	MainID    TableID = 254
	LocalID   TableID = 255
	DefaultID TableID = 253
)

// Config is a validated configuration with every default filled in. A pointer
// field that is nil stands for a section that was left out.
type Config struct {
	Daemon   Daemon
	Node     string    // empty: --node, $NODE_NAME, else the hostname
	Networks []Network // in order of appearance
	Classes  []Class
	Tables   []Table
	NoTables bool // tables is given, and empty: none are wanted
	Guard    *Guard
	Cluster  *Cluster
	BGP      *BGP
	Drain    Drain
	API      API
	Log      Log
}

// Idle reports whether the configuration asks for nothing at all.
func (c *Config) Idle() bool {
	return len(c.Classes) == 0 && len(c.Tables) == 0 && c.Guard == nil && c.BGP == nil && c.Cluster == nil
}

// Network returns the prefixes of a named network, nil when there is none.
func (c *Config) Network(name string) []netip.Prefix {
	for i := range c.Networks {
		if c.Networks[i].Name == name {
			return c.Networks[i].Prefixes
		}
	}
	return nil
}

// Table returns the table of that name, or nil.
func (c *Config) Table(name string) *Table {
	for i := range c.Tables {
		if c.Tables[i].Name == name {
			return &c.Tables[i]
		}
	}
	return nil
}

// Network is a named prefix set. Prefixes are masked, sorted and disjoint.
type Network struct {
	Name     string
	Prefixes []netip.Prefix
}

// Daemon is the configuration of the process itself.
type Daemon struct {
	Protocol Protocol
	OnExit   ExitPolicy
	Resync   time.Duration
}

// ExitPolicy says what SIGTERM does with what the daemon owns.
type ExitPolicy string

// The exit policies.
const (
	ExitKeep  ExitPolicy = "keep"
	ExitFlush ExitPolicy = "flush"
	ExitAuto  ExitPolicy = "auto"
)

// Class is a promise: flows of its traffic leave by its link.
type Class struct {
	Name      string
	Link      string
	VLAN      int // 0: not given
	Traffic   []Traffic
	Delegated bool // the link belongs to a pod's namespace; absent is healthy
}

// Gateway reports whether the class's link leads to the world: its traffic
// comes from or goes to World.
func (c *Class) Gateway() bool {
	return slices.ContainsFunc(c.Traffic, func(t Traffic) bool { return t.From == World || t.To == World })
}

// Traffic is one direction of flows, by network name or World.
type Traffic struct{ From, To string }

// Table is a kernel routing table that we fill, with the rules that select it.
type Table struct {
	Name   string
	ID     TableID
	Rules  []Selector
	Routes Sources
	Fence  []string // network names; nil: no fence
}

// Selector is a configured rule: one kernel rule for each prefix of its sets.
// From or To (or both) name a network.
type Selector struct {
	From, To string
	Priority PerFamily[uint32] // 0: no rule in this family
}

// Sources says what a table is filled from.
type Sources struct {
	Connected []string // links
	Own       *Own
	Peers     *Peers
	Default   *Default
}

// Own is the source of this node's own pod CIDRs: a device route over Link, or
// a route of type Blackhole.
type Own struct {
	Link string
	Type RouteType // Unicast with Link, or Blackhole
}

// Learn says where the routes of peers come from.
type Learn string

// The sources of peers' routes.
const (
	LearnBGP   Learn = "bgp"
	LearnNodes Learn = "nodes"
)

// HopKind says which of a node's addresses is its next hop.
type HopKind string

// The kinds of next hop.
const (
	HopLink       HopKind = "link"       // its address on the class link
	HopInternalIP HopKind = "internalIP" // its InternalIP
)

// Accept says which prefixes a peer may announce.
type Accept string

// The acceptance policies.
const (
	AcceptAssigned Accept = "assigned" // those that the inventory assigns to it
	AcceptWithin   Accept = "within"   // any inside Pods that is nobody else's
)

// Peers is the source of other nodes' pod CIDRs.
type Peers struct {
	Link     string
	Learn    Learn
	NextHop  HopKind
	Accept   Accept
	OnLink   bool
	MTU      uint32
	Fallback Fallback
}

// Fallback is the second route of a peer's pod CIDR. The zero value is none.
type Fallback struct {
	Main    bool // a throw, so that main decides
	Link    string
	NextHop HopKind
}

// None reports whether there is no fallback.
func (f Fallback) None() bool { return !f.Main && f.Link == "" }

// LinkDown says what becomes of the default while its link is down.
type LinkDown string

// The policies for a default whose link is down.
const (
	LinkDownFallback LinkDown = "fallback" // no default: the next rule decides
	LinkDownHold     LinkDown = "hold"     // unreachable, so that connections are not moved
)

// Default is the source of the table's default route.
type Default struct {
	Link       string
	Gateway    PerFamily[AddressRef]
	OnLinkDown LinkDown
}

// AddressRef is an address given as such or by a node's annotation. The zero
// value is "not given".
type AddressRef struct {
	Addr       netip.Addr
	Annotation string
}

// Given reports whether there is an address or an annotation.
func (r AddressRef) Given() bool { return r.Addr.IsValid() || r.Annotation != "" }

// Guard is the configured guard.
type Guard struct {
	Networks []string
	AsRules  bool
	Priority uint32 // rules only
}

// Cluster says where nodes are known from.
type Cluster struct {
	NodesFile  string // absolute path
	Kubernetes *Kubernetes
	PodCIDRs   string // node | ciliumnode | calico
	Addresses  []LinkAddress
	Publish    string // off | missing | force
}

// Address returns where a node says its address on the link; the zero value
// means its InternalIP.
func (c *Cluster) Address(link string) (PerFamily[AddressRef], bool) {
	if c != nil {
		for _, a := range c.Addresses {
			if a.Link == link {
				return a.Ref, true
			}
		}
	}
	return PerFamily[AddressRef]{}, false
}

// LinkAddress says where a node's address on a class link is found.
type LinkAddress struct {
	Link string
	Ref  PerFamily[AddressRef]
}

// Kubernetes says how to reach the API server. Empty means in-cluster.
type Kubernetes struct{ Kubeconfig, Context string }

// BGP is the configuration of the speaker.
type BGP struct {
	ASN             uint32
	RouterID        netip.Addr // zero: decided by the planner
	Port            uint16
	Listen          bool
	Timers          Timers
	GracefulRestart time.Duration // mesh restart time; 0: off
	Mesh            *Mesh
	Upstreams       []Upstream
}

// Timers are RFC 4271's, as offered to a peer.
type Timers struct{ Hold, Keepalive, ConnectRetry time.Duration }

// Mesh is the iBGP full mesh over one link.
type Mesh struct {
	Link         string
	Address      HopKind
	PasswordFile string // absolute path, or relative to $CREDENTIALS_DIRECTORY when that is set
	GTSM         bool
	MaxPrefixes  uint32
}

// Upstream is a router we announce prefixes to.
type Upstream struct {
	Name            string
	Link            string
	PeerASN         uint32
	Address         PerFamily[AddressRef]
	PasswordFile    string
	GTSM            bool
	Multihop        uint8 // TTL; 0: single hop
	Timers          Timers
	GracefulRestart time.Duration
	Advertise       Advertise
	Import          []Import
}

// Advertise says what an upstream is told.
type Advertise struct {
	Networks        []string
	Services        *Services
	Communities     []string
	LocalPreference uint32
	MED             uint32
	Prepend         uint8
	ReadyHTTP       string
}

// Services selects Services of type LoadBalancer by class and label.
type Services struct {
	Class     string
	Selector  map[string]string
	Aggregate PerFamily[uint8]
}

// Import accepts an upstream's routes inside networks into a table.
type Import struct {
	Networks []string
	Table    string
}

// Drain holds the limits of a drain.
type Drain struct {
	ProtectSelector string
	Grace, Timeout  time.Duration
	QuietPPS        uint32
	QuietFor        time.Duration
	FollowCordon    bool
	LeaseNamespace  string
	LeaseName       string
}

// API names the groups that may use the socket.
type API struct{ Readers, Admins string }

// Log is how the daemon logs.
type Log struct{ Level, Format string }
