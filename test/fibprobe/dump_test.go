package fibprobe

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/netns"
)

// batch runs lines of `ip` of one family in the namespace. With force it goes
// on after a line that the kernel refuses.
func batch(t *testing.T, ns *netns.NS, family routing.Family, force bool, lines []string) {
	t.Helper()
	args := []string{"-" + strconv.Itoa(int(family)), "-batch", "-"}
	if force {
		args = append([]string{"-force"}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var out []byte
	err := ns.Do(func() (err error) { out, err = cmd.CombinedOutput(); return err })
	if err != nil && !force {
		t.Fatalf("ip -batch: %v\n%s", err, out)
	}
}

// sysctl writes settings below /proc/sys/net in the namespace.
func sysctl(t *testing.T, ns *netns.NS, settings ...string) {
	t.Helper()
	err := ns.Do(func() error {
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// router makes the namespace forward whatever the source, so that only routes
// decide.
func router(t *testing.T, ns *netns.NS) {
	t.Helper()
	sysctl(t, ns,
		"ipv4/ip_forward=1", "ipv6/conf/all/forwarding=1",
		"ipv4/conf/all/rp_filter=0", "ipv4/conf/default/rp_filter=0",
		"ipv4/conf/all/send_redirects=0", "ipv4/conf/default/send_redirects=0",
		"ipv6/conf/default/addr_gen_mode=1", "ipv6/conf/all/accept_dad=0", "ipv6/conf/default/accept_dad=0")
}

// dump reads the namespace's links, rules and routes by iproute2's JSON.
func dump(t *testing.T, ns *netns.NS) *routing.Kernel {
	t.Helper()
	k := &routing.Kernel{}
	var links []struct {
		Name  string   `json:"ifname"`
		Index int      `json:"ifindex"`
		Flags []string `json:"flags"`
	}
	query(t, ns, "-j link show", &links)
	for _, l := range links {
		flags := strings.Join(l.Flags, " ")
		k.Links = append(k.Links, routing.Link{
			Name: l.Name, Index: l.Index,
			Up: strings.Contains(" "+flags+" ", " UP "), Carrier: strings.Contains(flags, "LOWER_UP"),
		})
	}
	for _, f := range routing.Families {
		var rules []jsonRule
		query(t, ns, fmt.Sprintf("-N -j -%d rule show", f), &rules)
		for _, r := range rules {
			k.Rules = append(k.Rules, r.rule(t, f))
		}
		var routes []jsonRoute
		query(t, ns, fmt.Sprintf("-N -j -%d route show table all", f), &routes)
		for _, r := range routes {
			k.Routes = append(k.Routes, r.route(t, f))
		}
	}
	return k
}

// settled waits until the link and its routes show whether it has a carrier,
// which they do a moment after the other end changed, and returns the picture.
func settled(t *testing.T, ns *netns.NS, link string, carrier bool) *routing.Kernel {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		k := dump(t, ns)
		wrong := slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
			return r.Type == routing.Unicast && r.Link == link && r.LinkDown == carrier
		})
		if l := k.Link(link); l.Carrier == carrier && !wrong {
			return k
		}
	}
	t.Fatalf("link %s does not come to carrier %t", link, carrier)
	return nil
}

func query(t *testing.T, ns *netns.NS, args string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(ns.MustIP(t, args)), into); err != nil {
		t.Fatalf("ip %s: %v", args, err)
	}
}

type jsonRule struct {
	Priority uint32
	Not, Nop json.RawMessage // null when set
	Src, Dst string
	SrcLen   *int
	DstLen   *int
	IIF, OIF string
	FWMark   string
	FWMask   string
	Table    string
	Action   string
	Goto     json.RawMessage
	Suppress *int `json:"suppress_prefixlen"`
}

func (j jsonRule) rule(t *testing.T, f routing.Family) routing.Rule {
	t.Helper()
	r := routing.Rule{Family: f, Priority: j.Priority, IIF: j.IIF, OIF: j.OIF, SuppressPrefixLen: routing.NoSuppress, Invert: j.Not != nil}
	if j.Suppress != nil {
		r.SuppressPrefixLen = *j.Suppress
	}
	r.From, r.To = prefixOf(t, j.Src, j.SrcLen), prefixOf(t, j.Dst, j.DstLen)
	if j.FWMark != "" {
		r.Mark, r.Mask = uint32(number(t, j.FWMark)), 0xffffffff
	}
	if j.FWMask != "" {
		r.Mask = uint32(number(t, j.FWMask))
	}
	switch {
	case j.Goto != nil:
		r.Action, r.Goto = routing.ActionGoto, uint32(number(t, strings.Trim(string(j.Goto), `"`)))
	case j.Action == "unreachable" || j.Action == "7":
		r.Action = routing.ActionUnreachable
	case j.Action == "blackhole" || j.Action == "6":
		r.Action = routing.ActionBlackhole
	case j.Action == "prohibit" || j.Action == "8":
		r.Action = routing.ActionProhibit
	case j.Nop != nil:
		r.Action = routing.ActionNop
	case j.Table != "":
		r.Table = tableOf(t, j.Table)
	default:
		t.Fatalf("rule %+v is not understood", j)
	}
	return r
}

func prefixOf(t *testing.T, addr string, bits *int) netip.Prefix {
	t.Helper()
	if addr == "" || addr == "all" {
		return netip.Prefix{}
	}
	a, err := netip.ParseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	if bits == nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return netip.PrefixFrom(a, *bits)
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func tableOf(t *testing.T, name string) routing.TableID {
	t.Helper()
	switch name {
	case "", "main":
		return routing.MainID
	case "local":
		return routing.LocalID
	case "default":
		return routing.DefaultID
	}
	return routing.TableID(number(t, name))
}

type jsonRoute struct {
	Type, Dst, Gateway, Dev, Table, Protocol, PrefSrc string
	Metric                                            uint32
	Flags                                             []string
	NextHops                                          []json.RawMessage
}

var routeTypes = map[string]routing.RouteType{
	"": routing.Unicast, "unicast": routing.Unicast, "1": routing.Unicast,
	"local": routing.Local, "2": routing.Local,
	"blackhole": routing.Blackhole, "6": routing.Blackhole,
	"unreachable": routing.Unreachable, "7": routing.Unreachable,
	"prohibit": routing.Prohibit, "8": routing.Prohibit,
	"throw": routing.Throw, "9": routing.Throw,
	"broadcast": routing.Broadcast, "3": routing.Broadcast,
	"anycast": routing.Anycast, "4": routing.Anycast,
	"multicast": routing.Multicast, "5": routing.Multicast,
}

func (j jsonRoute) route(t *testing.T, f routing.Family) routing.Route {
	t.Helper()
	r := routing.Route{Metric: j.Metric, Link: j.Dev, Table: tableOf(t, j.Table), Multipath: j.NextHops != nil}
	var ok bool
	if r.Type, ok = routeTypes[j.Type]; !ok {
		r.Type = routing.Other
	}
	var err error
	switch {
	case j.Dst == "default":
		r.Dst = f.Default()
	case strings.Contains(j.Dst, "/"):
		r.Dst, err = netip.ParsePrefix(j.Dst)
	default:
		r.Dst = prefixOf(t, j.Dst, nil)
	}
	if err == nil && j.Gateway != "" {
		r.Via, err = netip.ParseAddr(j.Gateway)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Type.Reject() {
		r.Link = "" // IPv6 shows lo
	}
	for _, flag := range j.Flags {
		switch flag {
		case "dead":
			r.Dead = true
		case "linkdown":
			r.LinkDown = true
		}
	}
	return r
}
