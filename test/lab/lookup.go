package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"netclass.dev/routing"
)

// Hop is where a packet goes next.
type Hop struct {
	Link string
	Via  netip.Addr // zero: the destination is on the link
}

func (h Hop) String() string {
	if h.Via.IsValid() {
		return h.Link + " via " + h.Via.String()
	}
	return h.Link
}

// Lookup asks the node's kernel where a packet goes (RTM_GETROUTE): one that
// came in by link iif from src, or, with both empty, one of the node's own. A
// destination that is unreachable is an error that wraps the kernel's.
func (n *Node) Lookup(dst, src netip.Addr, iif string) (Hop, error) {
	opts := &netlink.RouteGetOptions{Iif: iif}
	if src.IsValid() {
		opts.SrcAddr = src.AsSlice()
	}
	routes, err := n.nl.RouteGetWithOptions(dst.AsSlice(), opts)
	if err == nil && len(routes) == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return Hop{}, fmt.Errorf("look up %s on %s: %w", dst, n.Name, err)
	}
	link, err := n.nl.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return Hop{}, fmt.Errorf("look up %s on %s: %w", dst, n.Name, err)
	}
	hop := Hop{Link: link.Attrs().Name}
	if via, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		hop.Via = via.Unmap()
	}
	return hop, nil
}

// FromPod is Lookup for a packet of the node's pod.
func (n *Node) FromPod(dst netip.Addr) (Hop, error) {
	return n.Lookup(dst, n.PodAddr(routing.FamilyOf(dst)), CNILink)
}

// PodPaths returns nil when the kernel sends the pod's packets to all the peers'
// pods by the link, in both families, and an error that names the first that
// goes elsewhere.
func (n *Node) PodPaths(link string, peers ...*Node) error {
	for _, peer := range peers {
		if peer == n {
			continue
		}
		for _, f := range routing.Families {
			hop, err := n.FromPod(peer.PodAddr(f))
			if err != nil {
				return err
			}
			if hop.Link != link {
				return fmt.Errorf("%s: pod to %s leaves by %s, not %s", n.Name, peer.PodAddr(f), hop, link)
			}
		}
	}
	return nil
}

// Separated returns nil when the kernel of every given node sends pods' packets
// for all others' pods by pod0 and for the world by ingress0.
func (l *Lab) Separated(nodes ...*Node) error {
	for _, n := range nodes {
		if err := n.PodPaths(PodNet, nodes...); err != nil {
			return err
		}
		for _, f := range routing.Families {
			hop, err := n.FromPod(WorldAddr.Of(f))
			if err != nil {
				return err
			}
			if hop.Link != Ingress {
				return fmt.Errorf("%s: pod to the world leaves by %s, not %s", n.Name, hop, Ingress)
			}
		}
	}
	return nil
}

// WaitSeparated waits until all nodes are separated and returns how long it took.
func (l *Lab) WaitSeparated(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := Eventually(ctx, func() error { return l.Separated(l.Nodes...) })
	return time.Since(start), err
}
