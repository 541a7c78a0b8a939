package fib

import (
	"fmt"
	"net/netip"

	"netclass.dev/routing"
)

// lookup walks the rules, and tells what it sees where steps is not nil.
func (f *FIB) lookup(flow Flow, mode Mode, steps *[]Step) Result {
	if !flow.Dst.IsValid() {
		return Result{}
	}
	q := newQuery(flow, mode)
	bound := mode == Stack && q.family == routing.IPv4 && q.oif != ""
	if bound && !f.up(q.oif) {
		return Result{} // without a lookup
	}
	r := f.walk(&q, steps)
	if bound && r.Action != Forward && r.Action != Local {
		return f.assumeOnLink(&q, r, steps)
	}
	return r
}

// walk is fib_rules_lookup (net/core/fib_rules.c).
func (f *FIB) walk(q *query, steps *[]Step) Result {
	rules := f.rules.Of(q.family)
	for i := 0; i < len(rules); i++ {
		rule := rules[i].Rule
		if !q.matches(rule) {
			if steps != nil {
				*steps = append(*steps, Step{Rule: *rule, Why: q.whyNot(rule)})
			}
			continue
		}
		switch rule.Action {
		case routing.ActionLookup:
			at := none
			if rules[i].table != nil {
				at = f.find(rules[i].table, q)
			}
			decides, why := q.judge(rule, f.route(at))
			if steps != nil {
				*steps = append(*steps, f.tell(rules[i], q, at, why))
			}
			if decides {
				route := f.routes[at]
				return Result{Action: routeAction(route.Type), Route: route, Rule: *rule}
			}
		case routing.ActionGoto:
			why := "there is no later rule of that priority"
			if rules[i].target > i {
				i, why = rules[i].target-1, "goes on there"
			}
			if steps != nil {
				*steps = append(*steps, Step{Rule: *rule, Match: true, Why: why})
			}
		case routing.ActionNop:
			if steps != nil {
				*steps = append(*steps, Step{Rule: *rule, Match: true, Why: "does nothing"})
			}
		default:
			if steps != nil {
				*steps = append(*steps, Step{Rule: *rule, Match: true, Why: "the rule itself decides"})
			}
			return Result{Action: ruleAction(rule.Action), Rule: *rule}
		}
	}
	return Result{}
}

// up reports whether a link is up, as far as the picture tells of links.
func (f *FIB) up(link string) bool {
	l := f.links[link]
	return l == nil && len(f.links) == 0 || l != nil && l.Up
}

// route returns route i, or nil for none.
func (f *FIB) route(i int32) *routing.Route {
	if i == none {
		return nil
	}
	return &f.routes[i]
}

// judge says whether a table's answer ends the lookup, and if not, why. A
// reject route is never suppressed: the kernel asks for suppression only where
// the table's answer is no error.
func (q *query) judge(rule *routing.Rule, route *routing.Route) (decides bool, why verdict) {
	switch {
	case route == nil:
		return false, noAnswer
	case route.Type == routing.Throw && q.obeys:
		return false, thrown
	case !route.Type.Reject() && route.Dst.Bits() <= rule.SuppressPrefixLen && q.obeys:
		return false, suppressed
	case route.Type == routing.Throw:
		return true, thrownAway
	}
	return true, decided
}

// verdict is what becomes of a table's answer.
type verdict uint8

const (
	decided    verdict = iota
	noAnswer           // the table has no route to the destination
	thrown             // a throw route: the next rule
	thrownAway         // a throw route where the lookup does not go on
	suppressed         // by suppress_prefixlength: the next rule
)

// tell describes what became of a table's answer.
func (f *FIB) tell(rule indexedRule, q *query, at int32, v verdict) Step {
	s := Step{Rule: *rule.Rule, Match: true, Route: f.route(at)}
	switch v {
	case decided:
		s.Why = "decides"
	case noAnswer:
		s.Why = "the table has no route there"
		if rule.table == nil {
			s.Why = "the table is empty"
		}
	case thrown:
		s.Why = "throws the packet to the next rule"
	case thrownAway:
		s.Why = "bpf_fib_lookup ends at a throw route in IPv6"
	case suppressed:
		s.Why = fmt.Sprintf("suppressed: the prefix is no longer than %d", rule.SuppressPrefixLen)
	}
	if rule.table == nil {
		return s
	}
	for _, i := range f.covering(rule.table, q) {
		if i == at {
			continue
		}
		s.Beat = append(s.Beat, f.routes[i])
		if skip := f.notes[i].skip; skip != "" {
			s.Why += fmt.Sprintf("; passed over %s: %s", f.routes[i], skip)
		}
	}
	return s
}

// assumeOnLink is what the IPv4 stack does for a socket bound to a link when the
// lookup fails, reject routes and rules included: it takes the destination to be
// on the link (ip_route_output_key_hash_rcu: "apparently, routing tables are
// wrong").
func (f *FIB) assumeOnLink(q *query, failed Result, steps *[]Step) Result {
	if steps != nil && len(*steps) > 0 {
		last := &(*steps)[len(*steps)-1]
		last.Why += "; the socket is bound to " + q.oif + ", so the destination is taken to be on it"
	}
	return Result{
		Action: Forward,
		Rule:   failed.Rule,
		Route:  routing.Route{Dst: netip.PrefixFrom(q.dst, q.dst.BitLen()), Type: routing.Unicast, Link: q.oif},
	}
}

func routeAction(t routing.RouteType) Action {
	switch t {
	case routing.Unicast:
		return Forward
	case routing.Unreachable:
		return Unreachable
	case routing.Blackhole:
		return Blackhole
	case routing.Prohibit:
		return Prohibit
	case routing.Throw: // only where it ends the lookup
		return NoRoute
	}
	return Local
}

// ruleAction is what a rule does that names no table. The kernel drops what it
// does not know.
func ruleAction(a routing.RuleAction) Action {
	switch a {
	case routing.ActionUnreachable:
		return Unreachable
	case routing.ActionProhibit:
		return Prohibit
	}
	return Blackhole
}
