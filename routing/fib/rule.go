package fib

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// indexedRule is a rule in the kernel's order with the place its goto leads to.
type indexedRule struct {
	*routing.Rule
	target int    // index of the first rule of the goto's priority; -1: unresolved
	table  *table // nil: empty
}

func (f *FIB) indexRules(rules []routing.Rule) {
	for _, family := range routing.Families {
		var list []indexedRule
		tables := f.tables.Of(family)
		for i := range rules {
			if rules[i].Family == family {
				list = append(list, indexedRule{&rules[i], -1, tables[rules[i].Table]})
			}
		}
		slices.SortStableFunc(list, func(a, b indexedRule) int {
			return cmp.Compare(a.Priority, b.Priority)
		})
		first := make(map[uint32]int, len(list))
		for i := len(list) - 1; i >= 0; i-- {
			first[list[i].Priority] = i
		}
		for i := range list {
			// The kernel takes forward jumps only, which is why it cannot loop.
			if at, ok := first[list[i].Goto]; ok && list[i].Action == routing.ActionGoto && at > i {
				list[i].target = at
			}
		}
		f.rules.Set(family, list)
	}
}

// query is a flow as the kernel's lookup sees it.
type query struct {
	family   routing.Family
	dst, src netip.Addr // src may be the unspecified address
	number   bits128    // of dst
	hasSrc   bool       // IPv6: `from` is looked at; IPv4 always does
	iif, oif string     // what rules see
	mark     uint32
	via      string // the link that routes are rated by or confined to
	strict   bool   // IPv6: confined
	obeys    bool   // throw and suppress_prefixlength
}

// newQuery says how each lookup fills the kernel's flow key.
func newQuery(flow Flow, mode Mode) query {
	q := query{dst: flow.Dst.WithZone(""), src: flow.Src.WithZone(""), iif: flow.IIF, mark: flow.Mark}
	q.family = routing.FamilyOf(q.dst)
	q.number = number(q.dst)
	v6 := q.family == routing.IPv6
	q.obeys = mode == Stack || !v6
	q.hasSrc = q.src.IsValid() && routing.FamilyOf(q.src) == q.family
	if !q.hasSrc {
		q.src = q.family.Default().Addr()
	}
	if q.iif == "" {
		q.iif = loopback
		q.oif, q.via = flow.OIF, flow.OIF
		q.strict = mode == Stack
	}
	if v6 && q.oif == "" && (mode == BPF || flow.IIF != "") {
		q.via, q.strict = q.iif, false
	}
	if mode == BPF {
		q.hasSrc = q.oif == ""
	}
	return q
}

// mismatch says which selector of the rule the packet fails, 0 for none, before
// `not` is applied.
func (q *query) mismatch(r *routing.Rule) selector {
	v6 := q.family == routing.IPv6
	switch {
	case r.IIF != "" && r.IIF != q.iif:
		return selIIF
	case r.OIF != "" && r.OIF != q.oif:
		return selOIF
	case (r.Mark^q.mark)&r.Mask != 0:
		return selMark
	case r.To.IsValid() && !r.To.Contains(q.dst):
		return selTo
	case r.From.IsValid() && r.From.Bits() > 0 && (v6 && !q.hasSrc || !r.From.Contains(q.src)):
		return selFrom
	}
	return 0
}

// selector is a selector that a packet fails.
type selector uint8

const (
	selIIF selector = iota + 1
	selOIF
	selMark
	selTo
	selFrom
)

// matches reports whether the rule is for the packet. A rule whose selectors
// cannot be modelled never is.
func (q *query) matches(r *routing.Rule) bool {
	if r.Opaque || r.L3MDev {
		return false
	}
	return (q.mismatch(r) == 0) != r.Invert
}

// whyNot says in words why matches is false.
func (q *query) whyNot(r *routing.Rule) string {
	switch {
	case r.Opaque:
		return "taken not to match: its selectors are not modelled: " + r.Extra
	case r.L3MDev:
		return "taken not to match: VRFs are not modelled"
	case r.Invert:
		return "all its selectors match, and it is a `not`"
	}
	switch q.mismatch(r) {
	case selIIF:
		return fmt.Sprintf("arrives by %s, not by %s", q.iif, r.IIF)
	case selOIF:
		if q.oif == "" {
			return "not bound to " + r.OIF
		}
		return fmt.Sprintf("bound to %s, not to %s", q.oif, r.OIF)
	case selMark:
		return fmt.Sprintf("mark %#x is not %#x/%#x", q.mark, r.Mark, r.Mask)
	case selTo:
		return fmt.Sprintf("destination %s is not in %s", q.dst, r.To)
	default:
		if !q.hasSrc || q.src.IsUnspecified() {
			return fmt.Sprintf("no source address to be in %s", r.From)
		}
		return fmt.Sprintf("source %s is not in %s", q.src, r.From)
	}
}
