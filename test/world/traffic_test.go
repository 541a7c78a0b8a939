package world

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// pingRate is how many pings a second go over each path.
const pingRate = 1000

// load is traffic of every kind, measured through a drain.
type load struct {
	c     *cluster
	kinds []*kind
}

// kind is the traffic of one class.
type kind struct {
	name    string
	pingers []*lab.Pinger
	streams []*lab.Stream
}

// worldStreams is how many connections the world has to a service, so that the
// router spreads them over the nodes.
const worldStreams = 12

// load starts traffic of every kind that touches a node.
func (c *cluster) load(node int) *load {
	c.t.Helper()
	l := &load{c: c}
	pod := c.Node(node).Pod
	pods, out := l.kind("pod to pod"), l.kind("pod to world")
	l.fromWorld()
	for _, f := range routing.Families {
		for n := 1; n <= len(c.Nodes); n++ {
			if n == node {
				continue
			}
			other := c.Node(n)
			pods.ping(c, pod, other.PodAddr(f))
			pods.ping(c, other.Pod, c.Node(node).PodAddr(f))
			pods.stream(c, pod, netip.AddrPortFrom(other.PodAddr(f), natPort))
			pods.stream(c, other.Pod, netip.AddrPortFrom(c.Node(node).PodAddr(f), natPort))
		}
		out.ping(c, pod, lab.WorldAddr.Of(f))
		out.stream(c, pod, netip.AddrPortFrom(lab.WorldAddr.Of(f), natPort))
	}
	return l
}

// fromWorld starts the traffic that the router spreads over the nodes.
func (l *load) fromWorld() {
	l.c.t.Helper()
	in := l.kind("world to VIP")
	for _, f := range routing.Families {
		in.ping(l.c, l.c.Router.World, vipEBPF.Of(f))
		for range worldStreams {
			in.stream(l.c, l.c.Router.World, netip.AddrPortFrom(vipEBPF.Of(f), servicePort))
		}
	}
}

func (l *load) kind(name string) *kind {
	k := &kind{name: name}
	l.kinds = append(l.kinds, k)
	return k
}

// ping begins once an answer has come: a machine that is busy with the start of
// everything else may take longer with the first.
func (k *kind) ping(c *cluster, from *lab.Host, to netip.Addr) {
	c.t.Helper()
	c.within(convergence, "before anything happens, "+k.name, func() error {
		r, err := from.Ping(to, 2)
		if err == nil && r.Lost == r.Sent {
			err = errors.New(r.String())
		}
		return err
	})
	p, err := from.StartPing(to, lab.PingOptions{Rate: pingRate})
	c.must(err)
	k.pingers = append(k.pingers, p)
}

func (k *kind) stream(c *cluster, from *lab.Host, to netip.AddrPort) {
	c.t.Helper()
	c.within(convergence, "before anything happens, "+k.name, func() error {
		s, err := from.DialStream(to)
		if err == nil {
			k.streams = append(k.streams, s)
		}
		return err
	})
}

// result is what became of one kind of traffic.
type result struct{ sent, lost, connections, reset int }

func (r result) String() string {
	return fmt.Sprintf("%d pings, %d lost; %d connections, %d reset", r.sent, r.lost, r.connections, r.reset)
}

// stop ends the traffic and prints what became of it, by kind.
func (l *load) stop() map[string]result {
	l.c.t.Helper()
	all := map[string]result{}
	for _, k := range l.kinds {
		var r result
		var first string
		for _, p := range k.pingers {
			report := p.Stop()
			r.sent, r.lost = r.sent+report.Sent, r.lost+report.Lost
			if report.Lost > 0 {
				l.c.t.Log(report)
			}
		}
		for _, s := range k.streams {
			r.connections++
			if err := s.Stop(); err != nil {
				r.reset++
				first = err.Error()
			}
		}
		all[k.name] = r
		l.c.t.Logf("%-13s %s %s", k.name, r, first)
	}
	return all
}

// masquerade has the nodes hide their pods behind their own addresses towards the
// world and VLAN 40, as clusters do.
func (c *cluster) masquerade() {
	c.t.Helper()
	for _, n := range c.Nodes {
		_, err := n.ExecInput(c.t.Context(), strings.NewReader(`
table inet hide {
	chain out {
		type nat hook postrouting priority 100;
		oifname { ingress0, mgmt0 } ip saddr 10.244.0.0/16 ip daddr { 192.0.2.0/24, 10.40.0.0/24 } masquerade
		oifname { ingress0, mgmt0 } ip6 saddr fd00:10:244::/48 ip6 daddr { 2001:db8::/64, fd00:40::/64 } masquerade
	}
}
`), "nft", "-f", "-")
		c.must(err)
	}
}
