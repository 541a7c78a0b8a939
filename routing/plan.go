package routing

import (
	"net/netip"
	"slices"
)

// Ledger is what an earlier run or configuration left that must not be
// forgotten. It is kept in the state directory.
type Ledger struct {
	Protocols  []Protocol
	Tables     []TableID
	Priorities []uint32
	// Links holds the networks last seen on each class link, so that fence and
	// guard stay while a link is down and its addresses are gone.
	Links map[string][]netip.Prefix
	// Holders holds who had each pod CIDR that two nodes claim, for when the
	// kernel cannot tell because the links that lead to it are down.
	Holders map[netip.Prefix]string
	// Drained are the other nodes that were drained when that was last seen.
	Drained []string
	// DrainPhases are how far each of them was, where it said so.
	DrainPhases map[string]DrainPhase
	// Adopted names whose routes are to be taken over, until that is done.
	Adopted []Adoption
}

// Adoption makes the routes that another protocol has in one of our tables ours:
// those that are planned are replaced, the others deleted.
type Adoption struct {
	Protocol Protocol
	Table    TableID
}

// Has reports whether a route of the kernel is one of those.
func (a Adoption) Has(r *Route) bool { return r.Protocol == a.Protocol && r.Table == a.Table }

// Inputs is everything the planner looks at.
type Inputs struct {
	Config    *Config
	Node      string
	Inventory *Inventory
	Kernel    *Kernel
	Peerings  []Peering
	Ledger    *Ledger
	Passwords map[string]Secret // by PasswordFile as configured; a missing one could not be read
	// Unread says of those why not.
	Unread map[string]string
	// Speaking is the newest order to the speaker: addresses that a link has
	// lost for the moment are taken from it, so that a flap ends no session.
	Speaking *Speak
	// Draining is how far this node has been taken out.
	Draining Draining
	// Unready says of each URL of an upstream's readyWhen.http why it does not
	// answer well; empty: it does. A URL that is not in it has not been asked yet.
	Unready map[string]string
}

// Plan is the desired state computed from Inputs.
type Plan struct {
	Routes []Route
	Rules  []Rule
	Speak  *Speak // nil: no speaker; Announce is left empty, see Announce below
	// Announce is what to originate once its route is in the kernel.
	Announce []Origin
	// Hold, when not empty, is why nothing may be deleted in this pass.
	Hold string
	// Unsafe names defaults that must go even then: their fence cannot be whole.
	Unsafe []RouteKey
	// Own is what Diff may touch at all.
	Own Ownership

	Classes    []ClassStatus
	Tables     []TableStatus
	Peers      []PeerStatus // Session and HeldTill are filled in by the engine
	Conditions []Condition
	Links      map[string][]netip.Prefix // for the ledger
	Holders    map[netip.Prefix]string   // for the ledger
	// Unrouted are the pod CIDRs of other nodes that the guard keeps this node itself
	// from, as main has no route to them.
	Unrouted []netip.Prefix
	// Drained are the other nodes that are drained or being drained, by name: as
	// the lease says, or their marker in BGP. The ledger remembers them for when
	// neither can be seen.
	Drained []string
	// DrainPhases are how far each of them is, as it says or last said itself. There is
	// none of who never did: an older netclassd.
	DrainPhases map[string]DrainPhase
}

// DrainPhase returns how far another node that is drained, or being drained, is. Who
// does not say is taken to be there.
func (p *Plan) DrainPhase(node string) DrainPhase {
	if phase, said := p.DrainPhases[node]; said {
		return phase
	}
	return DrainDone
}

// Origin is an announcement with the route and the rule that must be in the
// kernel first.
type Origin struct {
	Announcement
	Needs     Route // zero Dst: none
	NeedsRule Rule  // zero Family: none
}

// Ownership says which objects of the kernel are ours: our protocol number and
// our tables and priorities.
type Ownership struct {
	Protocols  []Protocol
	Tables     []TableID
	Priorities []uint32
	Adopted    []Adoption // routes only
}

// HasRoute reports whether a route of the kernel is ours.
func (o *Ownership) HasRoute(r *Route) bool {
	return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Tables, r.Table) || o.Adopts(r)
}

// Adopts reports whether a route of the kernel is another's that we take over.
func (o *Ownership) Adopts(r *Route) bool {
	return slices.ContainsFunc(o.Adopted, func(a Adoption) bool { return a.Has(r) })
}

// HasRule reports whether a rule of the kernel is ours.
func (o *Ownership) HasRule(r *Rule) bool {
	return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Priorities, r.Priority)
}

// Stage is a place in the order of ops: make before break.
type Stage uint8

// The stages in the order they are applied. Each is acknowledged before the
// next is sent. The fence goes once no default is left that it could keep packets
// from, and before the paths: where another's rule still leads to the table, what
// has no path there any more goes on to main and its guard.
const (
	StageWithdraw Stage = iota
	StageGuardLookup
	StageGuard
	StageFence
	StageBase // connected and own
	StagePeers
	StageDefault
	StageRules
	StageDropRules
	StageDropDefault
	StageDropFence
	StageDropPeers
	StageDropBase
	StageDropGuard
	StageDropGuardLookup
	StageAnnounce
)

var stageNames = [...]string{
	"withdraw", "guard lookup", "guard", "fence", "connected and own", "peers", "default", "rules",
	"drop rules", "drop default", "drop fence", "drop peers", "drop connected and own", "drop guard", "drop guard lookup", "announce",
}

func (s Stage) String() string { return stageNames[s] }

// Verb is what an op does.
type Verb uint8

// The verbs. Add never takes over what is there; Replace is used only on a
// route that the last dump showed as ours.
const (
	Add Verb = iota
	Replace
	Delete
)

var verbNames = [...]string{"add", "replace", "delete"}

func (v Verb) String() string { return verbNames[v] }

// Op is one change to the kernel: of a rule when Rule.Family is set, else of a
// route.
type Op struct {
	Stage Stage
	Verb  Verb
	Route Route
	Rule  Rule
}

// IsRule reports whether the op changes a rule.
func (o Op) IsRule() bool { return o.Rule.Family != 0 }

// Family returns the family of what the op changes.
func (o Op) Family() Family {
	if o.IsRule() {
		return o.Rule.Family
	}
	return o.Route.Family()
}

// Table returns the table of the route, or the one that the rule selects.
func (o Op) Table() TableID {
	if o.IsRule() {
		return o.Rule.Table
	}
	return o.Route.Table
}

// Throws reports whether the op puts in a route that leaves packets to main.
// Where a guard of main has failed it must not be carried out: what the fence
// stopped until then would go on to main's default.
func (o Op) Throws() bool {
	return !o.IsRule() && o.Verb != Delete && o.Route.Type == Throw
}

func (o Op) String() string {
	if o.IsRule() {
		return o.Verb.String() + " rule " + o.Rule.String()
	}
	return o.Verb.String() + " route " + o.Route.String()
}

// RouteStage is the stage in which a route of ours is added.
func RouteStage(r Route) Stage {
	switch {
	case r.Metric == MetricGuard:
		return StageGuard
	case r.Metric == MetricFence:
		return StageFence
	case r.Dst.Bits() == 0:
		return StageDefault
	case r.Metric == MetricFallback || r.Via.IsValid():
		return StagePeers
	}
	return StageBase
}

// RuleStage is the stage in which a rule of ours is added.
func RuleStage(r Rule) Stage {
	switch {
	case r.SuppressPrefixLen != NoSuppress:
		return StageGuardLookup
	case r.Action == ActionUnreachable && r.IIF == "":
		return StageGuard
	}
	return StageRules
}

// DropStage is the stage in which what was added in s is deleted.
func DropStage(s Stage) Stage {
	switch s {
	case StageGuardLookup:
		return StageDropGuardLookup
	case StageGuard:
		return StageDropGuard
	case StageFence:
		return StageDropFence
	case StageBase:
		return StageDropBase
	case StagePeers:
		return StageDropPeers
	case StageDefault:
		return StageDropDefault
	}
	return StageDropRules
}
