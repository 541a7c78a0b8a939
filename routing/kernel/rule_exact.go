package kernel

import (
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// deleteRule deletes exactly the rule r.
//
// The kernel compares only the selectors that a delete names, so that "from A"
// takes the first rule from A, also one "from A to B". Where such a rule stands
// before r, a second one like it is put behind r first; the delete then takes
// the one in front, and another delete takes r. At no moment is any other rule
// missing.
func (a *applying) deleteRule(r routing.Rule) error {
	r = asDumped(r)
	rules, err := a.rulesOf(r.Family)
	if err != nil {
		return err
	}
	place := slices.Index(rules, r)
	if place < 0 {
		return nil // gone already
	}
	var shadows []routing.Rule
	for _, other := range rules[:place] {
		if deletes(r, other) {
			shadows = append(shadows, other)
		}
	}
	for _, s := range shadows {
		if err := a.ruleRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE, s); err != nil {
			return err
		}
	}
	for range len(shadows) + 1 {
		err := a.ruleRequest(unix.RTM_DELRULE, 0, r)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	if len(shadows) > 0 {
		delete(a.rules, r.Family) // their order has changed
	} else {
		a.rules[r.Family] = slices.Delete(rules, place, place+1)
	}
	return nil
}

// settleRules looks after the rules of a batch that was carried out.
//
// The kernel refuses a rule as a double of any that has the selectors it names:
// "from A" is refused where "from A to B" stands at the same priority. Such a
// rule is added without asking for exclusiveness once a look shows that it is
// not there itself.
func (a *applying) settleRules() {
	a.rules = nil
	for _, op := range a.exist {
		r := asDumped(a.ops[op].Rule)
		rules, err := a.rulesOf(r.Family)
		switch {
		case err != nil:
		case slices.Contains(rules, r):
			err = unix.EEXIST
		default:
			err = a.ruleRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE, r)
			a.rules = nil
		}
		a.fail(op, err)
	}
	a.exist = a.exist[:0]
}

// ruleRequest sends one rule and waits for its acknowledgement.
func (a *applying) ruleRequest(kind, flags uint16, r routing.Rule) error {
	s := a.k.write
	b, err := appendRule(s.request(nil, kind, flags|unix.NLM_F_ACK), r)
	if err != nil {
		return err
	}
	_, err = s.query(finish(b, 0))
	return err
}

// rulesOf returns the family's rules as the kernel has them.
func (a *applying) rulesOf(f routing.Family) ([]routing.Rule, error) {
	if err := a.k.ready(a.ctx, &a.k.write); err != nil {
		return nil, err
	}
	if rules, ok := a.rules[f]; ok {
		return rules, nil
	}
	a.k.dumpMu.Lock()
	defer a.k.dumpMu.Unlock()
	if err := a.k.ready(a.ctx, &a.k.dump); err != nil {
		return nil, err
	}
	all, _, err := a.k.dump.rules(a.ctx)
	if err != nil {
		return nil, err
	}
	a.rules = map[routing.Family][]routing.Rule{}
	for _, r := range all {
		a.rules[r.Family] = append(a.rules[r.Family], r)
	}
	return a.rules[f], nil
}

// deletes reports whether the kernel would take other for a delete that names
// r (rule_find in net/core/fib_rules.c).
func deletes(r, other routing.Rule) bool {
	same := func(named bool, equal bool) bool { return !named || equal }
	return r.Priority == other.Priority &&
		same(r.Protocol != 0, r.Protocol == other.Protocol) &&
		r.Action == other.Action &&
		same(r.Table != 0, r.Table == other.Table) &&
		same(r.From.IsValid(), r.From == other.From) &&
		same(r.To.IsValid(), r.To == other.To) &&
		same(r.IIF != "", r.IIF == other.IIF) &&
		same(r.OIF != "", r.OIF == other.OIF) &&
		same(r.Mark != 0, r.Mark == other.Mark) &&
		same(r.Mask != 0, r.Mask == other.Mask) &&
		same(r.L3MDev, other.L3MDev) &&
		same(r.SuppressPrefixLen != routing.NoSuppress, r.SuppressPrefixLen == other.SuppressPrefixLen)
}

// asDumped gives a rule the form in which a dump shows it.
func asDumped(r routing.Rule) routing.Rule {
	for _, p := range []*netip.Prefix{&r.From, &r.To} {
		if p.Bits() <= 0 {
			*p = netip.Prefix{}
		}
	}
	if r.Action != routing.ActionLookup || r.L3MDev {
		r.Table = 0
	}
	return r
}
