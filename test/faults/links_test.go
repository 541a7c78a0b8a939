package faults

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestLinks: what becomes of links. Some of it loses packets; none of it may
// send one to the router, and each time the same state is back.
func TestLinks(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()

	for _, link := range []string{lab.PodNet, lab.Ingress, lab.NodeNet} {
		c.inject(1, link+" flaps within 5 ms")
		_, err := c.one.Flap(link)
		c.must(err)
		took := c.restored(repair, link+" flapped", want)
		t.Logf("whole after %v", took.Round(time.Millisecond))
	}

	c.inject(1, "pod0 loses its carrier")
	port := c.port(lab.PodNet)
	c.must(c.Switch.Netlink().LinkSetDown(port))
	c.within(4*time.Second, "the fallback", func() error { return c.one.PodPaths(lab.NodeNet, c.Node(2)) })
	c.within(4*time.Second, "the peer's fallback", func() error { return c.Node(2).PodPaths(lab.NodeNet, c.one) })
	c.pings(func() { time.Sleep(300 * time.Millisecond) })
	c.fenced(want, "without carrier")
	c.must(c.Switch.Netlink().LinkSetUp(port))
	c.restored(convergence, "the carrier's return", want)

	c.inject(1, "another MTU on pod0")
	c.pings(func() {
		c.ip("link set pod0 mtu 1400")
		time.Sleep(300 * time.Millisecond)
		c.unchanged("another MTU", want)
		c.ip("link set pod0 mtu 1500")
		time.Sleep(300 * time.Millisecond)
		c.unchanged("the old MTU", want)
	})

	c.inject(1, "pod0 gets another name, and its own again")
	c.must(c.one.LinkDown(lab.PodNet))
	c.ip("link set pod0 name x0", "link set x0 up")
	c.within(4*time.Second, "the fallback", func() error { return c.one.PodPaths(lab.NodeNet, c.Node(2)) })
	c.condition(repair, "class/pod-pod", "Waiting", "pod0")
	c.fenced(want, "another name")
	c.ip("link set x0 down", "link set x0 name pod0")
	c.must(c.one.LinkUp(lab.PodNet))
	c.restored(convergence, "the old name", want)

	c.inject(1, "pod0 is removed, and made again with another index")
	c.remake(lab.PodNet, want)
}

// TestAddresses: what becomes of addresses.
func TestAddresses(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()

	c.inject(2, "the addresses of ingress0 and pod0 are removed, and added")
	for _, link := range []string{lab.Ingress, lab.PodNet} {
		for _, f := range routing.Families {
			c.must(c.one.RemoveAddr(link, c.one.Prefix(link, f)))
		}
		c.within(repair, "no route with the dead address", func() error {
			for _, r := range c.dump().Routes {
				if r.Protocol == routing.ProtocolNetclass && r.Src.IsValid() && r.Link == link {
					return fmt.Errorf("still there: %s", r)
				}
			}
			return nil
		})
		c.fenced(want, "no address on "+link)
		c.must(c.one.LinkUp(link))
		c.restored(convergence, "the addresses of "+link, want)
	}

	v6 := routing.IPv6
	hasDefault := func(yes bool) func() error {
		return func() error {
			if has(c.dump(), v6.Default(), routing.MetricPath) != yes {
				return fmt.Errorf("IPv6 default: %v, want %v", !yes, yes)
			}
			return nil
		}
	}
	c.inject(1, "the address of ingress0 is tentative")
	c.must(c.one.Sysctl(map[string]string{"ipv6/conf/all/accept_dad": "1", "ipv6/conf/ingress0/accept_dad": "1", "ipv6/conf/ingress0/dad_transmits": "2"}))
	address := c.one.Prefix(lab.Ingress, v6).String()
	c.must(c.one.RemoveAddr(lab.Ingress, c.one.Prefix(lab.Ingress, v6)))
	c.within(repair, "no default without the address", hasDefault(false))
	c.ip("-6 addr add " + address + " dev ingress0")
	c.condition(repair, "class/world-pod", "Waiting", "tentative")
	c.must(hasDefault(false)())
	c.restored(10*time.Second, "the address that is checked", want)

	c.inject(1, "the address of ingress0 is a duplicate")
	router := netip.PrefixFrom(c.one.Prefix(lab.Ingress, v6).Addr(), 64)
	c.must(c.one.RemoveAddr(lab.Ingress, router))
	c.must(c.Router.AddAddr("vlan47", router))
	c.ip("-6 addr add " + address + " dev ingress0")
	c.condition(10*time.Second, "class/world-pod", "Waiting", "duplicate")
	c.must(hasDefault(false)())
	c.fenced(want, "a duplicate")
	c.must(c.Router.RemoveAddr("vlan47", router))
	c.must(c.one.RemoveAddr(lab.Ingress, router))
	c.must(c.one.LinkUp(lab.Ingress))
	c.restored(convergence, "its own address", want)
}

// TestLoopback: IPv6 reject routes live on lo, and go with it. While they cannot
// be there the default goes too.
func TestLoopback(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	for _, step := range []struct {
		what     string
		off, on  func()
		harmless bool
	}{
		{"lo is down, and up", func() { c.ip("link set lo down") }, func() { c.ip("link set lo up") }, false},
		{
			"IPv6 is switched off on lo, and on",
			func() { c.must(c.one.Sysctl(map[string]string{"ipv6/conf/lo/disable_ipv6": "1"})) },
			func() { c.must(c.one.Sysctl(map[string]string{"ipv6/conf/lo/disable_ipv6": "0"})) }, false,
		},
	} {
		c.inject(1, step.what)
		step.off()
		begin := time.Now()
		alone := time.Duration(0)
		for time.Since(begin) < time.Second {
			k := c.dump()
			at := time.Since(begin)
			if has(k, routing.IPv6.Default(), routing.MetricPath) && !has(k, lab.Pods.IPv6, routing.MetricFence) {
				alone = at
			}
			time.Sleep(2 * time.Millisecond)
		}
		t.Logf("%s: the IPv6 default stood without its fence for up to %v", step.what, alone.Round(time.Millisecond))
		if alone > 250*time.Millisecond {
			c.broken("%s: the IPv6 default stood without its fence for %v", step.what, alone)
		}
		c.fenced(want, step.what)
		step.on()
		c.restored(repair, step.what, want)
	}
}

// TestOneFamily: a node without IPv6 serves IPv4 and says what waits; when IPv6
// comes, so do its classes.
func TestOneFamily(t *testing.T) {
	t.Parallel()
	c := bare(t, 2)
	c.inject(1, "IPv6 is switched off at the start")
	c.must(c.one.Sysctl(map[string]string{"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"}))
	for _, n := range c.Nodes {
		c.run(n)
	}
	four := func() error {
		hop, err := c.one.FromPod(c.Node(2).PodAddr(routing.IPv4))
		if err == nil && hop.Link != lab.PodNet {
			err = fmt.Errorf("pod to pod leaves by %s", hop)
		}
		return err
	}
	c.within(convergence, "the class of IPv4", four)
	time.Sleep(time.Second)
	s, err := c.status()
	c.must(err)
	if s.Pass.Error != "" || s.Pass.Failed > 0 {
		t.Errorf("pass %v", s.Pass)
	}
	for _, x := range s.Conditions {
		t.Logf("condition %s %s: %s", x.Object, x.Reason, x.Message)
	}
	if tail := c.d.LogTail(1000); strings.Count(tail, "\n") > 150 {
		t.Errorf("%d lines are logged", strings.Count(tail, "\n"))
	}
	c.must(c.one.Sysctl(map[string]string{"ipv6/conf/all/disable_ipv6": "0", "ipv6/conf/default/disable_ipv6": "0"}))
	for _, link := range append(lab.ClassLinks[:], lab.CNILink) {
		c.must(c.one.LinkUp(link))
	}
	c.converge()
}

// port returns the switch's end of k8s-1's link.
func (c *cluster) port(link string) netlink.Link {
	c.t.Helper()
	vlan := map[string]int{lab.Mgmt: 40, lab.NodeNet: 46, lab.Ingress: 47, lab.PodNet: 48}[link]
	l, err := c.Switch.Netlink().LinkByName(fmt.Sprintf("vlan%d.1", vlan))
	c.must(err)
	return l
}

// remake removes a link of k8s-1 and makes it again.
func (c *cluster) remake(link string, want []string) {
	c.t.Helper()
	port := c.port(link).Attrs()
	old, err := c.one.Netlink().LinkByName(link)
	c.must(err)
	c.must(c.one.Netlink().LinkDel(old))
	c.within(4*time.Second, "the fallback", func() error { return c.one.PodPaths(lab.NodeNet, c.Node(2)) })
	c.fenced(want, "without "+link)
	c.must(c.one.Netlink().LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: link, Index: old.Attrs().Index + 1000}, PeerName: port.Name,
		PeerNamespace: netlink.NsFd(c.Switch.NS().Fd()),
	}))
	fresh, err := c.Switch.Netlink().LinkByName(port.Name)
	c.must(err)
	bridge, err := c.Switch.Netlink().LinkByIndex(port.MasterIndex)
	c.must(err)
	c.must(errors.Join(c.Switch.Netlink().LinkSetMaster(fresh, bridge), c.Switch.Netlink().LinkSetUp(fresh)))
	c.must(c.one.LinkUp(link))
	c.restored(convergence, "the link made again", want)
}
