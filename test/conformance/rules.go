package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// ruleTexts checks the rules of a family from a priority on.
func (h *harness) ruleTexts(f routing.Family, from uint32, want ...string) {
	h.Helper()
	var got []string
	for _, r := range h.dump().Rules {
		if r.Family == f && r.Priority >= from {
			s := r.String()
			if r.Protocol != routing.ProtocolKernel {
				s += fmt.Sprintf(" proto %d", r.Protocol)
			}
			got = append(got, s)
		}
	}
	if !slices.Equal(got, want) {
		h.Errorf("%s rules are\n\t%s\nwant\n\t%s", f, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func lookupRule(f routing.Family, priority uint32, from, to string) routing.Rule {
	r := routing.Rule{Family: f, Priority: priority, Action: routing.ActionLookup, Table: 47,
		Protocol: routing.ProtocolNetclass, SuppressPrefixLen: routing.NoSuppress}
	if from != "" {
		r.From = netip.MustParsePrefix(from)
	}
	if to != "" {
		r.To = netip.MustParsePrefix(to)
	}
	return r
}

func addRule(r routing.Rule) routing.Op { return routing.Op{Verb: routing.Add, Rule: r} }
func delRule(r routing.Rule) routing.Op { return routing.Op{Verb: routing.Delete, Rule: r} }

// Rules stand by priority, and among equals in the order in which they came. The
// protocol is part of a rule.
func rules(h *harness) {
	pods, vips := lookupRule(routing.IPv4, 1001, "10.244.0.0/16", ""), lookupRule(routing.IPv4, 1001, "10.47.64.0/24", "")
	pods6 := lookupRule(routing.IPv6, 1000, "fd00:244::/48", "")
	guard := lookupRule(routing.IPv4, 900, "", "10.244.0.0/16")
	guard.Table, guard.SuppressPrefixLen = routing.MainID, 15
	stop := lookupRule(routing.IPv4, 901, "", "10.47.64.0/24")
	stop.Action, stop.Table, stop.IIF = routing.ActionUnreachable, 0, "pod0"
	high := lookupRule(routing.IPv4, 500, "", "")
	high.Table = 1000000
	theirs := pods
	theirs.Protocol = routing.ProtocolStatic

	h.must(h.s.Foreign(addRule(theirs)))
	h.do(addRule(vips), addRule(pods), addRule(pods6), addRule(stop), addRule(guard), addRule(high))
	all := []string{
		"500: from all lookup 1000000 proto 148",
		"900: from all to 10.244.0.0/16 lookup main suppress_prefixlength 15 proto 148",
		"901: from all to 10.47.64.0/24 iif pod0 unreachable proto 148",
		"1001: from 10.244.0.0/16 lookup 47 proto 4",
		"1001: from 10.47.64.0/24 lookup 47 proto 148",
		"1001: from 10.244.0.0/16 lookup 47 proto 148",
		"32766: from all lookup main", "32767: from all lookup default",
	}
	h.ruleTexts(routing.IPv4, 1, all...)
	h.ruleTexts(routing.IPv6, 1, "1000: from fd00:244::/48 lookup 47 proto 148", "32766: from all lookup main")
	h.refused(addRule(pods), unix.EEXIST)
	h.do(delRule(pods), delRule(pods))
	h.ruleTexts(routing.IPv4, 1, slices.Delete(all, 5, 6)...)
	h.do(delRule(vips), delRule(guard), delRule(stop), delRule(pods6), delRule(high))
	h.ruleTexts(routing.IPv4, 1, "1001: from 10.244.0.0/16 lookup 47 proto 4", "32766: from all lookup main", "32767: from all lookup default")
	if errs := h.s.Apply(h.Context(), []routing.Op{{Verb: routing.Replace, Rule: pods}}); errs == nil {
		h.Error("a rule was replaced")
	}
}

// Of two rules of one priority, one narrower than the other, each can be added
// and deleted whatever the order.
func overlappingRules(h *harness) {
	wide, narrow := lookupRule(routing.IPv4, 1001, "10.244.0.0/16", ""), lookupRule(routing.IPv4, 1001, "10.244.0.0/16", "10.96.0.0/16")
	const wideText, narrowText = "1001: from 10.244.0.0/16 lookup 47 proto 148", "1001: from 10.244.0.0/16 to 10.96.0.0/16 lookup 47 proto 148"
	rest := []string{"32766: from all lookup main", "32767: from all lookup default"}
	h.do(addRule(narrow), addRule(wide))
	h.ruleTexts(routing.IPv4, 1, append([]string{narrowText, wideText}, rest...)...)
	h.refused(addRule(wide), unix.EEXIST)
	h.do(delRule(wide))
	h.ruleTexts(routing.IPv4, 1, append([]string{narrowText}, rest...)...)
	h.do(delRule(wide))
	h.do(addRule(wide), delRule(narrow))
	h.ruleTexts(routing.IPv4, 1, append([]string{wideText}, rest...)...)
}
