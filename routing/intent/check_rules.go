package intent

import (
	"netclass.dev/routing"
)

// slot is a place in the order of one family's rules.
type slot struct {
	family   routing.Family
	priority uint32
}

// checkRules gives every configured rule its own place in the order of rules.
func (r *reader) checkRules() {
	taken := map[slot]int{} // line of the rule
	for i := range r.config.Tables {
		for j := range r.config.Tables[i].Rules {
			r.checkRule(&r.config.Tables[i].Rules[j], r.tables[i].rules[j], taken)
		}
	}
}

func (r *reader) checkRule(s *routing.Selector, place rulePlace, taken map[slot]int) {
	if !r.known(s.From) || !r.known(s.To) || s.From == "" && s.To == "" {
		return // reported already
	}
	selects := 0
	for _, f := range routing.Families {
		if s.From != "" && !r.has(s.From, f) || s.To != "" && !r.has(s.To, f) {
			s.Priority.Set(f, 0) // one for a family the set lacks means nothing
			continue
		}
		selects++
		r.checkPriority(s, place, f, taken)
	}
	if selects == 0 && s.From != "" && s.To != "" && len(r.config.Network(s.From)) > 0 && len(r.config.Network(s.To)) > 0 {
		place.node.Errorf("rule selects nothing: %s and %s have no family in common", s.From, s.To)
	}
}

func (r *reader) checkPriority(s *routing.Selector, place rulePlace, f routing.Family, taken map[slot]int) {
	p := s.Priority.Of(f)
	node := place.priority.Of(f)
	if node == nil {
		if place.given {
			place.node.Errorf("rule has no %s priority, but %s has %s prefixes", f, selectorName(s), familyWord(f))
		}
		return
	}
	if p == 0 {
		return // reported already
	}
	key := slot{f, p}
	if line, twice := taken[key]; twice {
		node.Errorf("%s priority %d is taken by the rule on line %d: two rules of one number have no order", f, p, line)
		return
	}
	taken[key] = place.node.Line
	if g := r.config.Guard; g != nil && g.AsRules && (p == g.Priority || p == g.Priority+1) {
		node.Errorf("priority %d is the guard's: its rules stand at %d and %d", p, g.Priority, g.Priority+1)
	}
}

func selectorName(s *routing.Selector) string {
	switch {
	case s.From == "":
		return s.To
	case s.To == "":
		return s.From
	}
	return s.From + " and " + s.To
}

// known reports whether a name is a defined network, or none is named.
func (r *reader) known(name string) bool {
	if name == "" {
		return true
	}
	for _, n := range r.config.Networks {
		if n.Name == name {
			return true
		}
	}
	return false
}
