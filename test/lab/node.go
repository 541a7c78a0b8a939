package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Node is a node of the cluster.
type Node struct {
	*Host
	Number int   // from 1
	Pod    *Host // the pod behind cilium_host

	// What an operating system's network daemon and a CNI keep on each link.
	addrs  map[string][]netip.Prefix
	routes map[string][]static
}

// NodeName returns the name of node n.
func NodeName(n int) string { return fmt.Sprintf("k8s-%d", n) }

// Addr returns the node's address on a class link.
func (n *Node) Addr(link string, f routing.Family) netip.Addr {
	return linkPrefix(link, n.Number, f).Addr()
}

// Prefix returns the node's address on a class link with its network's length.
func (n *Node) Prefix(link string, f routing.Family) netip.Prefix {
	return linkPrefix(link, n.Number, f)
}

// PodCIDR returns the node's pod CIDR.
func (n *Node) PodCIDR(f routing.Family) netip.Prefix { return podCIDR(n.Number, f) }

// PodAddr returns the address of the node's pod.
func (n *Node) PodAddr(f routing.Family) netip.Addr { return podAddr(n.Number, podNumber, f) }

func (l *Lab) makeNode(number int) (*Node, error) {
	h, err := l.newHost(NodeName(number))
	if err != nil {
		return nil, err
	}
	n := &Node{Host: h, Number: number, addrs: map[string][]netip.Prefix{}, routes: map[string][]static{}}
	if err := n.setUp(); err != nil {
		return nil, err
	}
	for _, link := range ClassLinks {
		if err := l.plug(n.Host, link, link, number); err != nil {
			return nil, err
		}
		for _, f := range routing.Families {
			n.addrs[link] = append(n.addrs[link], linkPrefix(link, number, f))
		}
	}
	if err := n.makePod(); err != nil {
		return nil, err
	}
	n.planRoutes()
	for link := range n.routes {
		if err := n.restore(link); err != nil {
			return nil, err
		}
	}
	if l.opts.NoCounters {
		return n, nil
	}
	return n, n.installCounters()
}

// makePod makes the pod. Its link's other end is cilium_host, so that a route to
// the pod CIDR by that device delivers to it.
func (n *Node) makePod() error {
	var err error
	if n.Pod, err = n.lab.newHost("pod-" + fmt.Sprint(n.Number)); err != nil {
		return err
	}
	if err := n.Pod.setUp(); err != nil {
		return err
	}
	if err := wire(n.Pod, "eth0", n.Host, CNILink); err != nil {
		return err
	}
	for _, f := range routing.Families {
		gateway := netip.PrefixFrom(podAddr(n.Number, 1, f), f.Bits())
		n.addrs[CNILink] = append(n.addrs[CNILink], gateway)
		if err := n.AddAddr(CNILink, gateway); err != nil {
			return err
		}
		if err := n.Pod.AddAddr("eth0", netip.PrefixFrom(n.PodAddr(f), f.Bits())); err != nil {
			return err
		}
		if err := n.Pod.addRoute(static{dst: gateway, link: "eth0", proto: unix.RTPROT_BOOT}); err != nil {
			return err
		}
		if err := n.Pod.addRoute(static{dst: f.Default(), via: gateway.Addr(), link: "eth0", proto: unix.RTPROT_BOOT}); err != nil {
			return err
		}
	}
	return nil
}

// planRoutes decides main: the default by mgmt0, and the CNI's routes, peers' pod
// CIDRs by InternalIP. Cilium's protocol number is the kernel's.
func (n *Node) planRoutes() {
	for _, f := range routing.Families {
		n.routes[Mgmt] = append(n.routes[Mgmt], static{
			dst: f.Default(), via: linkPrefix(Mgmt, routerNumber, f).Addr(), link: Mgmt, proto: unix.RTPROT_STATIC,
		})
		own := static{dst: n.PodCIDR(f), link: CNILink, proto: unix.RTPROT_KERNEL}
		if f == routing.IPv4 {
			own.src = podAddr(n.Number, 1, f)
		}
		n.routes[CNILink] = append(n.routes[CNILink], own)
		for peer := 1; peer <= n.lab.opts.Nodes; peer++ {
			if peer == n.Number {
				continue
			}
			n.routes[NodeNet] = append(n.routes[NodeNet], static{
				dst: podCIDR(peer, f), via: linkPrefix(NodeNet, peer, f).Addr(), link: NodeNet, proto: unix.RTPROT_KERNEL,
			})
		}
	}
}

// restore puts back the addresses and routes that belong on a link.
func (n *Node) restore(link string) error {
	for _, p := range n.addrs[link] {
		if err := n.AddAddr(link, p); err != nil {
			return err
		}
	}
	for _, r := range n.routes[link] {
		if err := n.addRoute(r); err != nil {
			return err
		}
	}
	return nil
}

// LinkDown takes a link down, as an administrator would.
func (n *Node) LinkDown(link string) error { return n.setLink(link, false) }

// LinkUp brings a link up with its addresses and the routes that the operating
// system and the CNI keep on it; the kernel has dropped some of them.
func (n *Node) LinkUp(link string) error {
	if err := n.setLink(link, true); err != nil {
		return err
	}
	return n.restore(link)
}

// LinkUpBare brings a link up and leaves it as the kernel then has it.
func (n *Node) LinkUpBare(link string) error { return n.setLink(link, true) }

// Flap takes a link down and up at once and restores it. It returns for how long
// the link was down: well under 5 ms.
func (n *Node) Flap(link string) (time.Duration, error) {
	l, err := n.link(link)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := n.nl.LinkSetDown(l); err != nil {
		return 0, fmt.Errorf("flap %s on %s: %w", link, n.Name, err)
	}
	if err := n.nl.LinkSetUp(l); err != nil {
		return 0, fmt.Errorf("flap %s on %s: %w", link, n.Name, err)
	}
	took := time.Since(start)
	return took, n.restore(link)
}

// Cut stops all packets of a link at the switch. Neither end loses carrier.
func (n *Node) Cut(link string) error { return n.lab.setPort(link, n.Number, false) }

// Mend undoes Cut.
func (n *Node) Mend(link string) error { return n.lab.setPort(link, n.Number, true) }

// PowerOff ends the node as a power cut does: nothing says goodbye, and no peer
// loses carrier.
func (n *Node) PowerOff() error {
	for _, link := range ClassLinks {
		if err := n.Cut(link); err != nil {
			return err
		}
	}
	return errors.Join(n.KillAll(), n.Pod.KillAll())
}
