package plan_test

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	"netclass.dev/routing"
)

// chaos draws clusters, and what becomes of them: each step bends the world as
// people, kernels and other daemons do.
type chaos struct {
	*world
	t *rapid.T
	// meddled is set once someone has taken or put something in our place: the
	// invariants are then only not to be made worse.
	meddled bool
}

func newChaos(t *rapid.T) *chaos {
	c := &chaos{world: served(), t: t}
	// Wider than any that is let through: what keeps the cluster's own out of it is
	// the planner.
	c.Config.Networks = append(c.Config.Networks, routing.Network{Name: "corp", Prefixes: prefixes("10.0.0.0/8", "192.0.2.0/24", "fd00::/8", "2001:db8::/32")})
	c.Config.BGP.Upstreams[0].Import = []routing.Import{{Networks: []string{"corp"}, Table: "pods"}}
	for n := 4; n < 4+c.draw("more nodes", 3); n++ {
		c.addNode(n)
	}
	for range c.draw("configuration changes", 4) {
		c.bendConfig()
	}
	c.converge()
	c.kernelFollows()
	return c
}

// draw returns a number below n.
func (c *chaos) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(c.t, what) }

func (c *chaos) addNode(n int) {
	c.Inventory.Nodes = append(slices.Clone(c.Inventory.Nodes), routing.Node{
		Name:        fmt.Sprintf("k8s-%d", n),
		PodCIDRs:    prefixes(fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd00:10:244:%d::/64", n)),
		InternalIPs: []netip.Addr{addr(fmt.Sprintf("10.46.0.%d", n)), addr(fmt.Sprintf("fd00:46::%d", n))},
		Annotations: map[string]string{
			"net.renner.uno/pod0-v4": fmt.Sprintf("10.48.0.%d", n),
			"net.renner.uno/pod0-v6": fmt.Sprintf("fd00:48::%d", n),
		},
	})
}

func (c *chaos) step() {
	for range 1 + c.draw("faults", 3) {
		switch c.draw("fault", 13) {
		case 0, 1, 2:
			c.bendLink()
		case 3, 4:
			c.bendNode()
		case 5, 6:
			c.bendPeering()
		case 7:
			c.bendConfig()
		case 8:
			c.meddle()
		case 9:
			c.restarted()
		case 10:
			c.bendDrain()
		case 11:
			c.bendServices()
		case 12:
			c.routerSays()
		}
	}
	c.kernelFollows()
}

// bendDrain takes this node out or back in by any number of steps, or has another
// say that it is drained.
func (c *chaos) bendDrain() {
	if c.draw("whose drain", 3) == 0 && len(c.Peerings) > 0 {
		c.Peerings = slices.Clone(c.Peerings)
		p := &c.Peerings[c.draw("drained peer", len(c.Peerings))]
		p.RouterID = addr("10.48.0.3")
		p.Paths = append(slices.Clone(p.Paths), routing.Path{
			Prefix: routing.DrainMarker(p.RouterID, p.Key.Family), NextHop: addr("10.48.0.3"), NoAdvertise: true,
		})
		return
	}
	c.Draining = routing.Draining{
		Step:       routing.DrainStep(c.draw("step", int(routing.DrainPaths)+1)),
		KeepEgress: c.draw("keep egress", 4) == 0,
		Marker:     c.draw("marker", 2) == 0,
		Classes:    [][]string{nil, nil, {"pod-pod"}, {"world-pod"}, {"gone"}}[c.draw("classes", 5)],
	}
}

// bendServices changes what the router is to be told.
func (c *chaos) bendServices() {
	inv := *c.Inventory
	c.Inventory = &inv
	inv.Services, inv.ServicesSynced = nil, c.draw("services synced", 4) > 0
	for _, a := range []string{"10.47.64.5", "10.47.64.6", "192.0.2.7", "198.51.100.9", "10.244.2.5", "10.46.0.2", "fd00:47:64::5", "2001:db8::7"} {
		switch c.draw("service", 3) {
		case 0:
			inv.Services = append(inv.Services, service("s", a))
		case 1:
			inv.Services = append(inv.Services, service("l", a, fmt.Sprintf("k8s-%d", 1+c.draw("endpoint", 2))))
		}
	}
	inv.Nodes = slices.Clone(inv.Nodes)
	for i := range inv.Nodes {
		inv.Nodes[i].NotReady = c.draw("not ready", 8) == 0
	}
}

// routerSays lets the router announce what it may and what it may not, the
// cluster's own above all.
func (c *chaos) routerSays() {
	c.Peerings = slices.DeleteFunc(slices.Clone(c.Peerings), func(p routing.Peering) bool { return p.Key.Peer == "udm" })
	said := map[string][]string{
		"10.47.0.254": {"0.0.0.0/0", "10.0.0.0/8", "10.244.0.0/16", "10.244.2.0/24", "10.244.9.0/25", "10.46.0.0/24", "10.46.0.2/32", "10.48.0.0/23", "10.49.0.0/24", "10.96.0.10/32", "10.47.64.9/32", "10.40.0.0/16", "192.0.2.0/24", "10.9.0.0/16"},
		"fd00:47::fe": {"::/0", "fd00::/8", "fd00:10:244::/48", "fd00:10:244:2::/64", "fd00:46::/64", "fd00:48::2/128", "fd00:49::/64", "fd00:10:96::10/128", "2001:db8::/32", "fd00:99::/32"},
	}
	for _, hop := range []string{"10.47.0.254", "fd00:47::fe"} {
		for _, dst := range said[hop] {
			if c.draw("said", 2) == 0 {
				c.hears("udm", hop, dst)
			}
		}
	}
}

func (c *chaos) bendLink() {
	i := 1 + c.draw("link", 5)
	healthy := seedLinks()[i]
	at := slices.IndexFunc(c.Kernel.Links, func(l routing.Link) bool { return l.Name == healthy.Name })
	k := *c.Kernel
	k.Links = slices.Clone(k.Links)
	c.Kernel = &k
	if at < 0 {
		c.Kernel.Links = append(c.Kernel.Links, healthy)
		return
	}
	l := healthy
	switch c.draw("link state", 10) {
	case 0: // healthy again
	case 1:
		l.Up, l.Carrier = false, false
	case 2:
		l.Up, l.Carrier, l.Addrs = false, false, l.Addrs[:1]
	case 3:
		l.Carrier = false
	case 4:
		l.Addrs = nil
	case 5:
		l.Addrs = l.Addrs[1:]
	case 6:
		l.Addrs[1].Tentative = true
	case 7:
		l.Addrs[1].DADFailed = true
	case 8:
		c.Kernel.Links = slices.Delete(c.Kernel.Links, at, at+1)
		return
	case 9:
		if l.Name == "pod0" {
			l.Addrs[0].Prefix = netip.MustParsePrefix("10.49.0.1/24")
			l.Addrs[1].Prefix = netip.MustParsePrefix("fd00:49::1/64")
		}
	}
	c.Kernel.Links[at] = l
}

func (c *chaos) bendNode() {
	inv := *c.Inventory
	inv.Nodes = slices.Clone(inv.Nodes)
	c.Inventory = &inv
	if len(inv.Nodes) == 0 {
		inv.Nodes = seedNodes()
		return
	}
	i := c.draw("node", len(inv.Nodes))
	n := &inv.Nodes[i]
	n.PodCIDRs = slices.Clone(n.PodCIDRs)
	annotations := map[string]string{}
	for k, v := range n.Annotations {
		annotations[k] = v
	}
	n.Annotations = annotations
	switch c.draw("node fault", 10) {
	case 0:
		inv.Nodes = slices.Delete(inv.Nodes, i, i+1)
	case 1:
		n.PodCIDRs = nil
	case 2: // claims another's
		n.PodCIDRs = append(n.PodCIDRs, inv.Nodes[c.draw("victim", len(inv.Nodes))].PodCIDRs...)
	case 3: // claims a part of, or all around, another's
		for _, p := range inv.Nodes[c.draw("victim", len(inv.Nodes))].PodCIDRs {
			q, _ := p.Addr().Prefix(p.Bits() + 2*c.draw("longer", 2) - 1)
			n.PodCIDRs = append(n.PodCIDRs, q)
		}
	case 4:
		delete(n.Annotations, "net.renner.uno/pod0-v4")
	case 5:
		n.Annotations["net.renner.uno/pod0-v6"] = []string{"x", "10.48.0.2", "fd00:48::1", "fd00:99::1", "fd00:48::77"}[c.draw("value", 5)]
	case 6:
		n.InternalIPs = nil
	case 7:
		inv.Synced = !inv.Synced
	case 8: // moves
		other := &inv.Nodes[c.draw("other", len(inv.Nodes))]
		n.PodCIDRs, other.PodCIDRs = other.PodCIDRs, n.PodCIDRs
	case 9:
		inv.Nodes, inv.Synced = seedNodes(), true
	}
}

func (c *chaos) bendPeering() {
	if c.draw("all", 3) == 0 || len(c.Peerings) == 0 {
		c.converge()
		return
	}
	c.Peerings = slices.Clone(c.Peerings)
	p := &c.Peerings[c.draw("peering", len(c.Peerings))]
	p.Paths = slices.Clone(p.Paths)
	switch c.draw("peering fault", 5) {
	case 0:
		p.Paths = nil
	case 1:
		p.Synced = false
	case 2:
		p.Synced, p.Paths = false, nil
	case 3:
		p.Synced = true
	case 4: // says what it should not
		hop := addr("10.48.0.2")
		if len(p.Paths) > 0 {
			hop = p.Paths[0].NextHop
		}
		said := []string{"0.0.0.0/0", "::/0", "10.244.1.0/24", "10.244.2.0/24", "10.244.200.0/26", "10.244.2.64/26", "10.46.0.0/24", "192.0.2.0/24", "fd00:10:244:ff::/64", "fd00::/8"}
		p.Paths = append(p.Paths, routing.Path{Prefix: netip.MustParsePrefix(said[c.draw("said", len(said))]), NextHop: hop})
	}
}

func (c *chaos) bendConfig() {
	cfg := *c.Config
	cfg.Tables = slices.Clone(cfg.Tables)
	c.Config = &cfg
	if len(cfg.Tables) == 0 {
		cfg.Tables = seedConfig().Tables
		return
	}
	t := &cfg.Tables[0]
	peers := *seedConfig().Tables[0].Routes.Peers
	if t.Routes.Peers != nil {
		peers = *t.Routes.Peers
	}
	t.Routes.Peers = &peers
	def := *t.Routes.Default
	t.Routes.Default = &def
	switch c.draw("configuration", 13) {
	case 12: // two aggregates, that Services lie in
		bgp := *seedConfig().BGP
		bgp.Upstreams[0].Advertise.Services = &routing.Services{Aggregate: routing.PerFamily[uint8]{IPv4: uint8(24 + 8*c.draw("aggregate", 2)), IPv6: 128}}
		bgp.Upstreams[0].Import = []routing.Import{{Networks: []string{"corp"}, Table: "pods"}}
		cfg.BGP = &bgp
	case 11: // a table of its own for the replies of VIPs
		if len(cfg.Tables) > 1 {
			cfg.Tables = cfg.Tables[:1]
			return
		}
		vips := seedConfig().Tables[0]
		vips.Name, vips.ID = "vips", 49
		vips.Rules = []routing.Selector{{From: "loadBalancers", Priority: routing.PerFamily[uint32]{IPv6: 900, IPv4: 901}}}
		vips.Routes.Connected = []string{"ingress0"}
		cfg.Tables = append(cfg.Tables, vips)
	case 0:
		cfg.Guard = seedConfig().Guard
	case 1:
		cfg.Guard = &routing.Guard{Networks: []string{"pods", "nodes"}, AsRules: true, Priority: 32762}
	case 2:
		t.Fence = [][]string{{"pods", "nodes"}, {"pods", "services", "nodes", "loadBalancers"}, {"pods"}}[c.draw("fence", 3)]
	case 3:
		peers.Fallback = []routing.Fallback{{}, {Main: true}, {Link: "node0", NextHop: routing.HopInternalIP}}[c.draw("fallback", 3)]
	case 4:
		peers.Learn = []routing.Learn{routing.LearnBGP, routing.LearnNodes}[c.draw("learn", 2)]
	case 5:
		peers.Accept = []routing.Accept{routing.AcceptAssigned, routing.AcceptWithin}[c.draw("accept", 2)]
	case 6:
		def.OnLinkDown = []routing.LinkDown{routing.LinkDownFallback, routing.LinkDownHold}[c.draw("on link down", 2)]
	case 7:
		t.Routes.Own = []*routing.Own{{Link: "cilium_host"}, {Type: routing.Blackhole}, nil}[c.draw("own", 3)]
	case 8:
		id := []routing.TableID{47, 48}[c.draw("table", 2)]
		t.ID = id
	case 9:
		t.Rules = []routing.Selector{{From: "pods", Priority: routing.PerFamily[uint32]{IPv6: 1100, IPv4: 1100}}}
		if c.draw("rules", 2) == 0 {
			t.Rules = seedConfig().Tables[0].Rules
		}
	case 10:
		if cfg.BGP = nil; c.draw("bgp", 2) == 0 {
			cfg.BGP = seedConfig().BGP
			cfg.BGP.Upstreams[0].Import = []routing.Import{{Networks: []string{"corp"}, Table: "pods"}}
		}
		if cfg.BGP == nil {
			peers.Learn = routing.LearnNodes
		}
	}
}

// meddle does what others do to what is ours.
func (c *chaos) meddle() {
	c.meddled = true
	k := *c.Kernel
	k.Routes = slices.Clone(k.Routes)
	k.Rules = slices.Clone(k.Rules)
	c.Kernel = &k
	ours := func(p routing.Protocol) bool { return p == routing.ProtocolNetclass }
	switch c.draw("meddling", 4) {
	case 0: // a route of ours is deleted
		if len(k.Routes) > 0 {
			if i := c.draw("route", len(k.Routes)); ours(k.Routes[i].Protocol) {
				k.Routes = slices.Delete(k.Routes, i, i+1)
			}
		}
	case 1: // or taken over
		if len(k.Routes) > 0 {
			if i := c.draw("route", len(k.Routes)); ours(k.Routes[i].Protocol) {
				k.Routes[i].Protocol = routing.ProtocolBIRD
			}
		}
	case 2: // a rule of ours is deleted
		if len(k.Rules) > 0 {
			if i := c.draw("rule", len(k.Rules)); ours(k.Rules[i].Protocol) {
				k.Rules = slices.Delete(k.Rules, i, i+1)
			}
		}
	case 3: // a route of ours gets a twin or another next hop
		if len(k.Routes) > 0 {
			i := c.draw("route", len(k.Routes))
			r := k.Routes[i]
			if ours(r.Protocol) && r.Via.IsValid() {
				r.Via = r.Via.Next()
				if r.Family() == routing.IPv6 && c.draw("twin", 2) == 0 {
					k.Routes = append(k.Routes, r)
				} else {
					k.Routes[i] = r
				}
			}
		}
	}
}

// kernelFollows makes of the links what the kernel and the CNI would: routes of
// a link that is down go, those of main come back with it.
func (c *chaos) kernelFollows() {
	k := *c.Kernel
	up := func(name string) bool { l := k.Link(name); return l != nil && l.Up }
	k.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r routing.Route) bool {
		return r.Link != "" && !up(r.Link) || r.Table == routing.MainID && r.Protocol != routing.ProtocolNetclass && r.Metric != routing.MetricGuard
	})
	for _, r := range seedMain() {
		if up(r.Link) {
			k.Routes = append(k.Routes, r)
		}
	}
	c.Kernel = &k
}
