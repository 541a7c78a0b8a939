package lab

import (
	"fmt"
	"slices"
	"strings"

	"netclass.dev/routing"
)

// Zone is where an address lies.
type Zone string

// The zones. World is whatever is in no other.
const (
	ZonePod   Zone = "pod"
	ZoneNode  Zone = "node"
	ZoneVIP   Zone = "vip"
	ZoneWorld Zone = "world"
)

// zones lists the zones that have addresses, with them; hosts' own addresses on
// the links with a gateway count as node, the router's do not.
var zones = []struct {
	zone  Zone
	addrs routing.PerFamily[string]
}{
	{ZonePod, routing.PerFamily[string]{IPv4: "10.244.0.0/16", IPv6: "fd00:10:244::/48"}},
	{ZoneNode, routing.PerFamily[string]{
		IPv4: "10.46.0.0/24, 10.48.0.0/24, 10.40.0.1-10.40.0.253, 10.47.0.1-10.47.0.253",
		IPv6: "fd00:46::/64, fd00:48::/64, fd00:40::1-fd00:40::fd, fd00:47::1-fd00:47::fd",
	}},
	{ZoneVIP, routing.PerFamily[string]{IPv4: "10.47.64.0/24", IPv6: "fd00:47:64::/112"}},
}

// Flow is one counter's worth of packets: those of a family between two zones
// that left a node by a link (Out) or came in by it.
type Flow struct {
	Link     string
	Out      bool
	Family   routing.Family
	From, To Zone
}

func (f Flow) name() string {
	direction := "in"
	if f.Out {
		direction = "out"
	}
	return fmt.Sprintf("%s/%s/%s/%s/%s", direction, f.Link, f.Family, f.From, f.To)
}

// flows lists every counter a node has.
var flows = func() []Flow {
	var out []Flow
	pairs := [][2]Zone{
		{ZonePod, ZonePod}, {ZonePod, ZoneNode}, {ZonePod, ZoneVIP}, {ZonePod, ZoneWorld},
		{ZoneNode, ZonePod}, {ZoneNode, ZoneNode}, {ZoneNode, ZoneWorld},
		{ZoneVIP, ZoneWorld},
		{ZoneWorld, ZonePod}, {ZoneWorld, ZoneNode}, {ZoneWorld, ZoneVIP}, {ZoneWorld, ZoneWorld},
	}
	for _, link := range append(slices.Clone(ClassLinks[:]), CNILink) {
		for _, leaving := range []bool{true, false} {
			for _, f := range routing.Families {
				for _, p := range pairs {
					out = append(out, Flow{Link: link, Out: leaving, Family: f, From: p[0], To: p[1]})
				}
			}
		}
	}
	return out
}()

// installCounters makes the node count test traffic by link: ICMP echo, UDP and
// TCP, without BGP, so that neighbour discovery and the mesh do not blur it.
func (n *Node) installCounters() error {
	var b strings.Builder
	b.WriteString("table inet lab {\n")
	names := make([]string, len(flows))
	for i, f := range flows {
		names[i] = f.name()
	}
	b.WriteString(declare(names))
	for _, hook := range []struct{ chain, hook, key string }{{"out", "postrouting", "oifname"}, {"in", "prerouting", "iifname"}} {
		var jumps []string
		for _, link := range append(slices.Clone(ClassLinks[:]), CNILink) {
			for _, f := range routing.Families {
				chain := fmt.Sprintf("%s_%s_%s", hook.chain, link, f)
				jumps = append(jumps, fmt.Sprintf("%s . %s : jump %s", link, f, chain))
				fmt.Fprintf(&b, "chain %s {\n", chain)
				for _, flow := range flows {
					if flow.Link == link && flow.Family == f && flow.Out == (hook.chain == "out") {
						fmt.Fprintf(&b, "%s counter name %s return\n", flow.match(), flow.name())
					}
				}
				b.WriteString("}\n")
			}
		}
		fmt.Fprintf(&b, `chain %s {
			type filter hook %s priority 300;
			meta l4proto != { icmp, icmpv6, tcp, udp } return
			icmp type != { echo-request, echo-reply } return
			icmpv6 type != { echo-request, echo-reply } return
			tcp dport 179 return
			tcp sport 179 return
			%s . meta nfproto vmap { %s }
		}
		`, hook.chain, hook.hook, hook.key, strings.Join(jumps, ", "))
	}
	b.WriteString("}\n")
	return n.nft(b.String())
}

// match is the flow's zones in nft's words. World needs no test of its own: the
// narrower flows stand before it.
func (f Flow) match() string {
	keyword := "ip"
	if f.Family == routing.IPv6 {
		keyword = "ip6"
	}
	var b strings.Builder
	for _, z := range zones {
		if z.zone == f.From {
			fmt.Fprintf(&b, "%s saddr { %s } ", keyword, z.addrs.Of(f.Family))
		}
		if z.zone == f.To {
			fmt.Fprintf(&b, "%s daddr { %s } ", keyword, z.addrs.Of(f.Family))
		}
	}
	return b.String()
}

// Counts holds packets by flow.
type Counts map[Flow]uint64

// Counts returns the node's counters.
func (n *Node) Counts() (Counts, error) {
	all, err := n.nftCounters()
	if err != nil {
		return nil, err
	}
	out := Counts{}
	for _, f := range flows {
		if v := all[f.name()]; v > 0 {
			out[f] = v
		}
	}
	return out, nil
}

// Since returns what was counted since an earlier reading.
func (c Counts) Since(earlier Counts) Counts {
	out := Counts{}
	for f, v := range c {
		if d := v - earlier[f]; d > 0 {
			out[f] = d
		}
	}
	return out
}

// Out returns the packets of both families between two zones that left by a
// link.
func (c Counts) Out(link string, from, to Zone) uint64 {
	return c.Sum(func(f Flow) bool { return f.Out && f.Link == link && f.From == from && f.To == to })
}

// In is Out for packets that came in.
func (c Counts) In(link string, from, to Zone) uint64 {
	return c.Sum(func(f Flow) bool { return !f.Out && f.Link == link && f.From == from && f.To == to })
}

// Sum adds up the flows that keep accepts.
func (c Counts) Sum(keep func(Flow) bool) uint64 {
	var n uint64
	for f, v := range c {
		if keep(f) {
			n += v
		}
	}
	return n
}
