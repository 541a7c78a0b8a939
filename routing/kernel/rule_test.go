package kernel_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/test/netns"
)

func rule(f routing.Family, priority uint32, change ...func(*routing.Rule)) routing.Rule {
	r := routing.Rule{Family: f, Priority: priority, Action: routing.ActionLookup, Table: 47,
		Protocol: routing.ProtocolNetclass, SuppressPrefixLen: routing.NoSuppress}
	for _, c := range change {
		c(&r)
	}
	return r
}

func from(p string) func(*routing.Rule) {
	return func(r *routing.Rule) { r.From = netip.MustParsePrefix(p) }
}
func to(p string) func(*routing.Rule) {
	return func(r *routing.Rule) { r.To = netip.MustParsePrefix(p) }
}
func iif(l string) func(*routing.Rule) { return func(r *routing.Rule) { r.IIF = l } }
func lookup(id routing.TableID, suppress int) func(*routing.Rule) {
	return func(r *routing.Rule) { r.Table, r.SuppressPrefixLen = id, suppress }
}
func act(a routing.RuleAction) func(*routing.Rule) {
	return func(r *routing.Rule) { r.Action, r.Table = a, 0 }
}
func by(p routing.Protocol) func(*routing.Rule) {
	return func(r *routing.Rule) { r.Protocol = p }
}

// rulesAt returns the rules of a family in a range of priorities.
func rulesAt(k *routing.Kernel, f routing.Family, lo, hi uint32) []routing.Rule {
	var out []routing.Rule
	for _, r := range k.Rules {
		if r.Family == f && r.Priority >= lo && r.Priority <= hi {
			out = append(out, r)
		}
	}
	return out
}

func texts(rules []routing.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.String())
	}
	return out
}

func TestRules(t *testing.T) {
	n := newNode(t)
	v4 := []routing.Rule{
		rule(routing.IPv4, 1000, from("10.244.0.0/16")),
		rule(routing.IPv4, 1001, to("10.244.0.0/16"), lookup(1000000, 15)),
		rule(routing.IPv4, 1002, to("10.244.0.0/16"), lookup(routing.MainID, 0)),
		rule(routing.IPv4, 1003, from("10.244.0.0/16"), to("10.96.0.0/12"), act(routing.ActionUnreachable)),
		rule(routing.IPv4, 1004, to("10.47.64.0/24"), iif("pod0"), act(routing.ActionUnreachable)),
		rule(routing.IPv4, 1005, act(routing.ActionBlackhole), func(r *routing.Rule) { r.OIF = "absent0" }),
		rule(routing.IPv4, 1006, act(routing.ActionProhibit), func(r *routing.Rule) { r.Mark, r.Mask = 0x10, 0xff }),
		rule(routing.IPv4, 1007, act(routing.ActionGoto), func(r *routing.Rule) { r.Goto = 1100 }),
		rule(routing.IPv4, 1008, act(routing.ActionNop)),
		rule(routing.IPv4, 1009, from("10.1.0.0/16"), func(r *routing.Rule) { r.Invert = true }),
		rule(routing.IPv4, 4294967295, from("10.2.0.1/32")),
	}
	v6 := []routing.Rule{
		rule(routing.IPv6, 1000, from("fd00:244::/48")),
		rule(routing.IPv6, 1001, to("fd00:244::/48"), lookup(1000000, 47)),
		rule(routing.IPv6, 1004, to("fd00:47::/64"), iif("pod0"), act(routing.ActionUnreachable)),
	}
	var adds, dels []routing.Op
	for _, r := range append(slices.Clone(v4), v6...) {
		adds, dels = append(adds, addRule(r)), append(dels, delRule(r))
	}
	n.apply(t, adds...)
	// Actions by number: 6 blackhole, 7 unreachable, 8 prohibit.
	wantLines(t, n.show(t, "-N -4 rule"), strings.ReplaceAll(`
		0:~from all lookup 255
		1000:~from 10.244.0.0/16 lookup 47 proto 148
		1001:~from all to 10.244.0.0/16 lookup 1000000 suppress_prefixlength 15 proto 148
		1002:~from all to 10.244.0.0/16 lookup 254 suppress_prefixlength 0 proto 148
		1003:~from 10.244.0.0/16 to 10.96.0.0/12 7 proto 148
		1004:~from all to 10.47.64.0/24 iif pod0 7 proto 148
		1005:~from all oif absent0 [detached] 6 proto 148
		1006:~from all fwmark 0x10/0xff 8 proto 148
		1007:~from all goto 1100 [unresolved] proto 148
		1008:~from all nop proto 148
		1009:~not from 10.1.0.0/16 lookup 47 proto 148
		32766:~from all lookup 254
		32767:~from all lookup 253
		4294967295:~from 10.2.0.1 lookup 47 proto 148`, "~", "\t"))
	wantLines(t, n.show(t, "-N -6 rule"), strings.ReplaceAll(`
		0:~from all lookup 255
		1000:~from fd00:244::/48 lookup 47 proto 148
		1001:~from all to fd00:244::/48 lookup 1000000 suppress_prefixlength 47 proto 148
		1004:~from all to fd00:47::/64 iif pod0 7 proto 148
		32766:~from all lookup 254`, "~", "\t"))

	p := n.dump(t)
	own := func(f routing.Family) []routing.Rule {
		return slices.DeleteFunc(rulesAt(p, f, 0, 1<<32-1), func(r routing.Rule) bool { return r.Protocol != routing.ProtocolNetclass })
	}
	if got := own(routing.IPv4); !slices.Equal(got, v4) {
		t.Errorf("IPv4 rules are dumped as\n%s", strings.Join(texts(got), "\n"))
	}
	if got := own(routing.IPv6); !slices.Equal(got, v6) {
		t.Errorf("IPv6 rules are dumped as\n%s", strings.Join(texts(got), "\n"))
	}

	for _, err := range n.k.Apply(t.Context(), adds) {
		wantErr(t, err, unix.EEXIST)
	}
	n.apply(t, dels...)
	n.apply(t, dels...) // deleting what is gone is a success
	p = n.dump(t)
	if got := append(own(routing.IPv4), own(routing.IPv6)...); len(got) > 0 {
		t.Errorf("left after deleting all: %v", texts(got))
	}
	errs := n.k.Apply(t.Context(), []routing.Op{{Verb: routing.Replace, Rule: v4[0]}})
	if len(errs) != 1 || errs[0] == nil {
		t.Error("replacing a rule worked")
	}
}

// The protocol tells our rule from one that is otherwise the same.
func TestRuleOfAnotherProtocol(t *testing.T) {
	n := newNode(t)
	ours, theirs := rule(routing.IPv4, 1000, from("10.244.0.0/16")), rule(routing.IPv4, 1000, from("10.244.0.0/16"), by(routing.ProtocolStatic))
	n.MustIP(t, "rule add from 10.244.0.0/16 lookup 47 priority 1000 protocol static")
	n.apply(t, addRule(ours))
	n.apply(t, delRule(ours))
	n.apply(t, delRule(ours))
	if got := rulesAt(n.dump(t), routing.IPv4, 1000, 1000); !slices.Equal(got, []routing.Rule{theirs}) {
		t.Errorf("rules are now %v", texts(got))
	}
}

// A delete takes the very rule it names, though the kernel would take the first
// that has the named selectors, and no other rule is ever missing.
func TestRuleDeleteIsExact(t *testing.T) {
	n := newNode(t)
	narrow := rule(routing.IPv4, 1000, from("10.244.0.0/16"), to("10.96.0.0/12"))
	marked := rule(routing.IPv4, 1000, from("10.244.0.0/16"), func(r *routing.Rule) { r.Mark, r.Mask = 1, 1<<32-1 })
	wide := rule(routing.IPv4, 1000, from("10.244.0.0/16"))
	n.apply(t, addRule(narrow), addRule(marked), addRule(wide))
	n.apply(t, delRule(wide))
	if got := rulesAt(n.dump(t), routing.IPv4, 1000, 1000); !slices.Equal(got, []routing.Rule{narrow, marked}) {
		t.Errorf("rules are now %v", texts(got))
	}
	// One that is not there takes nothing else either.
	n.apply(t, delRule(wide))
	if got := rulesAt(n.dump(t), routing.IPv4, 1000, 1000); len(got) != 2 {
		t.Errorf("rules are now %v", texts(got))
	}
	n.apply(t, delRule(narrow), delRule(marked))
	if got := rulesAt(n.dump(t), routing.IPv4, 1000, 1000); got != nil {
		t.Errorf("rules are now %v", texts(got))
	}
}

// Rules of other software, with selectors that the model does not have, show as
// opaque and disturb nothing.
func TestForeignRules(t *testing.T) {
	n := newNode(t)
	for _, args := range []string{
		"rule add priority 500 uidrange 0-1000 lookup 50",
		"rule add priority 501 ipproto tcp sport 80 dport 1000-2000 lookup 50",
		"rule add priority 502 tos 0x10 lookup 50",
		"rule add priority 503 lookup 50 suppress_ifgroup 7",
		"rule add priority 504 tun_id 9 lookup 50",
		"rule add priority 505 realms 1/2 lookup 50",
		"-6 rule add priority 500 sport 80 lookup 50",
	} {
		n.MustIP(t, args)
	}
	rawRule(t, n.NS, unix.AF_INET6, 506, func(ae *netlink.AttributeEncoder) {
		ae.Bytes(26, []byte{0, 0, 0x12, 0x34})    // FRA_FLOWLABEL
		ae.Bytes(27, []byte{0, 0x0f, 0xff, 0xff}) // FRA_FLOWLABEL_MASK
	})
	rawRule(t, n.NS, unix.AF_INET, 506, func(ae *netlink.AttributeEncoder) { ae.Uint8(25, 46) }) // FRA_DSCP
	p := n.dump(t)
	wantLines(t, texts(rulesAt(p, routing.IPv4, 500, 510)), `
		500: from all uidrange 0-1000 lookup 50
		501: from all sport 80 dport 1000-2000 ipproto 6 lookup 50
		502: from all tos 0x10 lookup 50
		503: from all suppress_ifgroup 7 lookup 50
		504: from all tun_id 9 lookup 50
		505: from all lookup 50
		506: from all dscp 46 lookup 50`)
	wantLines(t, texts(rulesAt(p, routing.IPv6, 500, 510)), `
		500: from all sport 80 lookup 50
		506: from all flowlabel 0x1234 flowlabel_mask 0xfffff lookup 50`)
	for _, r := range append(rulesAt(p, routing.IPv4, 500, 510), rulesAt(p, routing.IPv6, 500, 510)...) {
		if r.Opaque != (r.Priority != 505) {
			t.Errorf("%s: opaque is %t", r, r.Opaque)
		}
		if r.Opaque {
			if errs := n.k.Apply(t.Context(), []routing.Op{addRule(r)}); errs == nil {
				t.Errorf("an opaque rule was written: %s", r)
			}
		}
	}
}

// rawRule adds a rule to table 50 with attributes that `ip` may not know.
func rawRule(t *testing.T, n *netns.NS, family uint8, priority uint32, attrs func(*netlink.AttributeEncoder)) {
	t.Helper()
	c, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: n.Fd()})
	must(t, err)
	defer c.Close()
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.FRA_PRIORITY, priority)
	ae.Uint32(unix.FRA_TABLE, 50)
	attrs(ae)
	body, err := ae.Encode()
	must(t, err)
	head := []byte{family, 0, 0, 0, 0, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}
	_, err = c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWRULE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
		Data:   append(head, body...),
	})
	must(t, err)
}
