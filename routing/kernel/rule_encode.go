package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/jsimonetti/rtnetlink"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

var ruleNumbers = [...]uint8{
	routing.ActionLookup:      unix.FR_ACT_TO_TBL,
	routing.ActionUnreachable: unix.FR_ACT_UNREACHABLE,
	routing.ActionBlackhole:   unix.FR_ACT_BLACKHOLE,
	routing.ActionProhibit:    unix.FR_ACT_PROHIBIT,
	routing.ActionGoto:        unix.FR_ACT_GOTO,
	routing.ActionNop:         unix.FR_ACT_NOP,
}

// ruleRequest returns the message type and flags of a verb.
func ruleRequest(v routing.Verb) (kind, flags uint16, err error) {
	switch v {
	case routing.Add:
		return unix.RTM_NEWRULE, unix.NLM_F_CREATE | unix.NLM_F_EXCL, nil
	case routing.Delete:
		return unix.RTM_DELRULE, 0, nil
	}
	return 0, 0, errors.New("the kernel cannot replace rules")
}

// appendRule encodes a rule. Protocol and priority are always named: a delete
// without a protocol would take somebody else's rule.
func appendRule(b []byte, r routing.Rule) ([]byte, error) {
	if r.Opaque || int(r.Action) >= len(ruleNumbers) {
		return b, errors.New("a rule with selectors or an action outside the model cannot be written")
	}
	m := rtnetlink.RuleMessage{
		Family:     familyNumber(r.Family == routing.IPv4),
		Action:     ruleNumbers[r.Action],
		Attributes: &rtnetlink.RuleAttributes{Priority: &r.Priority, Protocol: (*uint8)(&r.Protocol)},
	}
	var err error
	if m.Attributes.Src, m.SrcLength, err = rulePrefix(r.Family, r.From); err != nil {
		return b, err
	}
	if m.Attributes.Dst, m.DstLength, err = rulePrefix(r.Family, r.To); err != nil {
		return b, err
	}
	if r.Invert {
		m.Flags |= unix.FIB_RULE_INVERT
	}
	if r.IIF != "" {
		m.Attributes.IIFName = &r.IIF
	}
	if r.OIF != "" {
		m.Attributes.OIFName = &r.OIF
	}
	if r.Mark != 0 || r.Mask != 0 {
		m.Attributes.FwMark, m.Attributes.FwMask = &r.Mark, &r.Mask
	}
	if r.L3MDev {
		one := uint8(1)
		m.Attributes.L3MDev = &one
	} else if r.Action == routing.ActionLookup {
		m.Attributes.Table = (*uint32)(&r.Table)
	}
	if r.Action == routing.ActionGoto {
		m.Attributes.Goto = &r.Goto
	}
	if r.SuppressPrefixLen != routing.NoSuppress {
		length := uint32(r.SuppressPrefixLen)
		m.Attributes.SuppressPrefixLen = &length
	}
	body, err := m.MarshalBinary()
	return append(b, body...), err
}

func rulePrefix(f routing.Family, p netip.Prefix) (*net.IP, uint8, error) {
	if p == (netip.Prefix{}) {
		return nil, 0, nil
	}
	if !p.IsValid() || routing.FamilyOf(p.Addr()) != f {
		return nil, 0, fmt.Errorf("prefix %s in an %s rule", p, f)
	}
	if p.Bits() == 0 {
		return nil, 0, nil // everything
	}
	ip := net.IP(p.Addr().AsSlice())
	return &ip, uint8(p.Bits()), nil
}
