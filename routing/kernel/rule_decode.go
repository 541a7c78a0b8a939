package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// struct fib_rule_hdr.
const ruleHeaderLen = 12

// The actions of a rule (FR_ACT_*).
var ruleActions = map[uint8]routing.RuleAction{
	unix.FR_ACT_TO_TBL:      routing.ActionLookup,
	unix.FR_ACT_GOTO:        routing.ActionGoto,
	unix.FR_ACT_NOP:         routing.ActionNop,
	unix.FR_ACT_BLACKHOLE:   routing.ActionBlackhole,
	unix.FR_ACT_UNREACHABLE: routing.ActionUnreachable,
	unix.FR_ACT_PROHIBIT:    routing.ActionProhibit,
}

// Attributes newer than the constants of golang.org/x/sys (linux/fib_rules.h).
const (
	fraDSCP = 25 + iota
	fraFlowLabel
	fraFlowLabelMask
	fraSportMask
	fraDportMask
	fraDSCPMask
)

// decodeRule reads struct fib_rule_hdr and its attributes. It takes any rule:
// what it cannot model makes the rule opaque, since other software's rules must
// never keep us from seeing our own. Rules of other families than IPv4 and IPv6
// are not ok.
func decodeRule(b []byte) (r routing.Rule, ok bool, err error) {
	if len(b) < ruleHeaderLen {
		return r, false, fmt.Errorf("decode rule: %w", errShort)
	}
	family, dstBits, srcBits, tos, table := b[0], b[1], b[2], b[3], b[4]
	switch family {
	case unix.AF_INET:
		r.Family = routing.IPv4
	case unix.AF_INET6:
		r.Family = routing.IPv6
	default:
		return r, false, nil
	}
	r.SuppressPrefixLen = routing.NoSuppress
	r.Table = routing.TableID(table)
	r.Invert = native.Uint32(b[8:])&unix.FIB_RULE_INVERT != 0
	if r.Action, ok = ruleActions[b[7]]; !ok {
		r.Action = routing.ActionOther
	}
	var extra []string
	if tos != 0 {
		extra = append(extra, fmt.Sprintf("tos %#x", tos))
	}
	var from, to netip.Addr
	for kind, v := range attributes(b[ruleHeaderLen:]) {
		if !decodeRuleAttr(&r, &from, &to, kind, v) {
			if e := ruleExtra(kind, v); e != "" {
				extra = append(extra, e)
			}
		}
	}
	if from.IsValid() || srcBits != 0 {
		if r.From, err = prefix(family, from, srcBits); err != nil {
			return r, false, fmt.Errorf("decode rule: %w", err)
		}
	}
	if to.IsValid() || dstBits != 0 {
		if r.To, err = prefix(family, to, dstBits); err != nil {
			return r, false, fmt.Errorf("decode rule: %w", err)
		}
	}
	if r.Action != routing.ActionLookup || r.L3MDev {
		r.Table = 0
	}
	r.Opaque = len(extra) > 0
	r.Extra = strings.Join(extra, " ")
	return r, true, nil
}

// decodeRuleAttr takes an attribute that a routing.Rule has a field for.
func decodeRuleAttr(r *routing.Rule, from, to *netip.Addr, kind uint16, v []byte) bool {
	switch kind {
	case unix.FRA_SRC:
		*from = addr(v)
	case unix.FRA_DST:
		*to = addr(v)
	case unix.FRA_IIFNAME:
		r.IIF = text(v)
	case unix.FRA_OIFNAME:
		r.OIF = text(v)
	case unix.FRA_GOTO:
		r.Goto = u32(v)
	case unix.FRA_PRIORITY:
		r.Priority = u32(v)
	case unix.FRA_FWMARK:
		r.Mark = u32(v)
	case unix.FRA_FWMASK:
		r.Mask = u32(v)
	case unix.FRA_TABLE:
		r.Table = routing.TableID(u32(v))
	case unix.FRA_PROTOCOL:
		r.Protocol = routing.Protocol(u8(v))
	case unix.FRA_L3MDEV:
		r.L3MDev = u8(v) != 0
	case unix.FRA_SUPPRESS_PREFIXLEN:
		r.SuppressPrefixLen = int(int32(u32(v)))
	default:
		return false
	}
	return true
}

// ruleExtra words a selector that the model has no place for, as `ip rule`
// does; it is empty for what selects nothing.
func ruleExtra(kind uint16, v []byte) string {
	switch kind {
	case unix.FRA_UNSPEC, unix.FRA_PAD, unix.FRA_FLOW:
		return ""
	case unix.FRA_SUPPRESS_IFGROUP:
		if u32(v) == 1<<32-1 {
			return ""
		}
		return fmt.Sprintf("suppress_ifgroup %d", u32(v))
	case unix.FRA_TUN_ID:
		if len(v) == 8 {
			return fmt.Sprintf("tun_id %d", binary.BigEndian.Uint64(v))
		}
	case unix.FRA_UID_RANGE:
		if len(v) == 8 {
			return fmt.Sprintf("uidrange %d-%d", u32(v), u32(v[4:]))
		}
	case unix.FRA_IP_PROTO:
		return fmt.Sprintf("ipproto %d", u8(v))
	case unix.FRA_SPORT_RANGE:
		return "sport " + portRange(v)
	case unix.FRA_DPORT_RANGE:
		return "dport " + portRange(v)
	case fraDSCP:
		return fmt.Sprintf("dscp %d", u8(v))
	case fraDSCPMask:
		if u8(v) == 0x3f {
			return "" // all of it
		}
		return fmt.Sprintf("dscp_mask %#x", u8(v))
	case fraFlowLabel:
		return fmt.Sprintf("flowlabel %#x", bigEndian(v))
	case fraFlowLabelMask:
		return fmt.Sprintf("flowlabel_mask %#x", bigEndian(v))
	case fraSportMask, fraDportMask:
		if u16(v) == 1<<16-1 {
			return ""
		}
		if kind == fraDportMask {
			return fmt.Sprintf("dport_mask %#x", u16(v))
		}
		return fmt.Sprintf("sport_mask %#x", u16(v))
	}
	return fmt.Sprintf("attribute %d: %x", kind, v)
}

func portRange(v []byte) string {
	if len(v) < 4 {
		return "?"
	}
	if u16(v) == u16(v[2:]) {
		return fmt.Sprint(u16(v))
	}
	return fmt.Sprintf("%d-%d", u16(v), u16(v[2:]))
}

func bigEndian(v []byte) uint32 {
	if len(v) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(v)
}
