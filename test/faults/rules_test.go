package faults

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// TestRules: other programs' rules among and against ours.
func TestRules(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()

	c.inject(2, "foreign rules at our priorities")
	c.pings(func() {
		c.ip("-4 rule add from 203.0.113.0/24 lookup 99 priority 1001", "-6 rule add from 2001:db8:1::/48 lookup 99 priority 1000")
		c.condition(repair, "rule/1001", "ForeignRule", "203.0.113.0/24")
		c.condition(repair, "rule/1000", "ForeignRule", "2001:db8:1::/48")
	})
	c.unchanged("foreign rules at our priorities", want)

	c.inject(4, "rules with attributes that others know")
	c.pings(func() {
		c.ip("-4 rule add from 10.9.0.0/16 ipproto udp sport 53 dport 1000-2000 uidrange 0-5 lookup 99 priority 500",
			"-4 rule add tos 0x10 fwmark 0x200/0xf00 tun_id 5 lookup 99 priority 501 suppress_ifgroup 7")
		c.rawRule(unix.AF_INET, 502, nl.NewRtAttr(25, []byte{10}))          // FRA_DSCP
		c.rawRule(unix.AF_INET6, 503, nl.NewRtAttr(26, []byte{0, 0, 1, 2}), // FRA_FLOWLABEL and its mask
			nl.NewRtAttr(27, []byte{0, 0xf, 0xff, 0xff}))
		c.ip("-4 rule del priority 1001 from 10.244.0.0/16") // ours is still seen, and healed
		c.restored(repair, "a rule deleted among them", want)
	})

	c.inject(1, "an l3mdev rule at 1000")
	if _, err := c.one.Exec(t.Context(), "ip", "-6", "rule", "add", "l3mdev", "priority", "1000"); err != nil {
		t.Logf("this kernel has no VRF: %v", err)
		c.rawRule(unix.AF_INET6, 1000, nl.NewRtAttr(unix.FRA_L3MDEV, []byte{1}))
	}
	c.condition(repair, "rule/1000", "ForeignRule", "")
	c.unchanged("an l3mdev rule", want)

	c.inject(2, "the local rule at 100, then behind ours")
	c.pings(func() {
		c.ip("-4 rule add priority 100 lookup local", "-4 rule del priority 0")
		time.Sleep(300 * time.Millisecond)
		c.unchanged("the local rule at 100", want)
		c.ip("-4 rule add priority 1002 lookup local", "-4 rule del priority 100")
		c.condition(repair, "rule/1001", "BeforeLocal", "1002")
		for _, l := range c.ours() {
			if strings.HasPrefix(l, "ipv4 rule 1001:") {
				c.broken("before local delivery stands %q", l)
			}
		}
		c.ip("-4 rule add priority 0 lookup local", "-4 rule del priority 1002")
		c.restored(repair, "the local rule in its place", want)
	})
	foreign := c.foreignRules()
	c.fight(want)
	if got := c.foreignRules(); !slices.Equal(got, foreign) {
		c.broken("foreign rules changed from\n%v to\n%v", foreign, got)
	}
}

func (c *cluster) foreignRules() (out []string) {
	for _, r := range c.dump().Rules {
		if r.Protocol != routing.ProtocolNetclass {
			out = append(out, r.Family.String()+" "+r.String())
		}
	}
	return out
}

// fight deletes all our rules every second.
func (c *cluster) fight(want []string) {
	c.t.Helper()
	const rounds = 14
	c.inject(rounds, "another program deletes all our rules every second")
	deleted := 0
	c.pings(func() {
		for range rounds {
			var ops []routing.Op
			for _, r := range c.dump().Rules {
				if r.Protocol == routing.ProtocolNetclass && r.Table == 47 {
					ops = append(ops, routing.Op{Verb: routing.Delete, Rule: r})
				}
			}
			if errs := c.kernel.Apply(c.t.Context(), ops); errs != nil {
				c.t.Fatal(errs)
			}
			deleted += len(ops)
			time.Sleep(time.Second)
		}
		c.condition(repair, "rule/1001", "Fight", fmt.Sprintf("(pid %d) undoes it again and again", os.Getpid()))
	})
	// Five rounds at once, and then two in nine seconds.
	if deleted < 4*6 || deleted > 4*9 {
		c.t.Errorf("4 rules were put back %d times in %d s: not limited, or not healed", deleted, rounds)
	}
	took := c.restored(8*time.Second, "the rules, once left alone", want)
	c.t.Logf("%d rules deleted; whole %v after the last", deleted, took.Round(time.Millisecond))
}

// TestFightFence has another program delete the fence every second: it is put
// back at once each time, and no default stays behind a fence like that.
func TestFightFence(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	const rounds = 7
	c.inject(rounds, "another program deletes the fence every second")
	c.pings(func() {
		for i := range rounds {
			var ops []routing.Op
			for _, r := range c.dump().Routes {
				if r.Protocol == routing.ProtocolNetclass && r.Table == 47 && r.Metric == routing.MetricFence {
					ops = append(ops, routing.Op{Verb: routing.Delete, Route: r})
				}
			}
			if errs := c.kernel.Apply(t.Context(), ops); errs != nil {
				t.Fatal(errs)
			}
			took := c.within(repair, "the fence", func() error { return differ(without(want, "default"), without(c.ours(), "default")) })
			t.Logf("round %d: whole after %v", i, took.Round(time.Millisecond))
			c.fenced(want, "a fence that is fought over")
			time.Sleep(time.Second)
		}
		c.condition(repair, "route/unreachable 10.244.0.0/16", "Fight", "put back at once")
		for _, f := range routing.Families {
			if has(c.dump(), f.Default(), routing.MetricPath) {
				c.broken("the %s default stands behind a fence that comes and goes", f)
			}
		}
	})
}

// without returns the lines that do not begin with a word.
func without(lines []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, word) })
}

// rawRule adds a rule with attributes that `ip` may not know.
func (c *cluster) rawRule(family uint8, priority uint32, attrs ...*nl.RtAttr) {
	c.t.Helper()
	err := c.one.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: family, Table: 99, Type: unix.FR_ACT_TO_TBL}})
		req.AddData(nl.NewRtAttr(unix.FRA_PRIORITY, nl.Uint32Attr(priority)))
		for _, a := range attrs {
			req.AddData(a)
		}
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		c.t.Logf("this kernel does not take that rule: %v", err)
		return
	}
	c.must(err)
}
