package world

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// The services of the lab. The first address is served as an eBPF datapath does:
// the reply has the address of the load balancer when its route is looked up. The
// second as kube-proxy does, with the kernel's own NAT: the reply is looked up
// with the pod's. The third is announced, and nobody serves it.
var (
	vipEBPF   = vips(10)
	vipNAT    = vips(20)
	vipUnused = vips(66)
)

const (
	servicePort = 80
	ebpfPort    = 8080 // of the pod
	natPort     = 8081
)

func vips(host int) routing.PerFamily[netip.Addr] {
	return routing.PerFamily[netip.Addr]{
		IPv4: netip.AddrFrom4([4]byte{10, 47, 64, byte(host)}),
		IPv6: netip.MustParseAddr(fmt.Sprintf("fd00:47:64::%x", host)),
	}
}

// text gives addresses as text.
func text(a routing.PerFamily[netip.Addr]) routing.PerFamily[string] {
	return routing.PerFamily[string]{IPv4: a.IPv4.String(), IPv6: a.IPv6.String()}
}

// balanceRules make a node deliver the services' packets to one pod, and count
// by which link it answers. ebpf stands in for a datapath that translates without
// the kernel's connection tracking, before any route is looked up.
const balanceRules = `
table %[1]s ebpf
delete table %[1]s ebpf
table %[1]s proxy
delete table %[1]s proxy
table %[1]s replies
delete table %[1]s replies
table %[1]s ebpf {
	chain in {
		type filter hook prerouting priority raw - 10;
		%[1]s daddr %[2]s tcp dport 80 notrack %[1]s daddr set %[4]s tcp dport set 8080
		iifname "cilium_host" %[1]s saddr %[4]s tcp sport 8080 notrack %[1]s saddr set %[2]s tcp sport set 80
		%[1]s daddr %[2]s %[6]s type echo-request notrack %[1]s daddr set %[4]s
		iifname "cilium_host" %[1]s saddr %[4]s %[1]s daddr %[7]s %[6]s type echo-reply notrack %[1]s saddr set %[2]s
	}
}
table %[1]s proxy {
	chain in { type nat hook prerouting priority -100; %[1]s daddr %[3]s tcp dport 80 dnat to %[5]s; }
	chain out { type nat hook output priority -100; %[1]s daddr %[3]s tcp dport 80 dnat to %[5]s; }
}
table %[1]s replies {
	counter ebpf-ingress0 { }
	counter ebpf-mgmt0 { }
	counter nat-ingress0 { }
	counter nat-mgmt0 { }
	chain leaving {
		type filter hook postrouting priority 310;
		%[1]s saddr %[2]s oifname "ingress0" counter name ebpf-ingress0
		%[1]s saddr %[2]s oifname "mgmt0" counter name ebpf-mgmt0
		%[1]s saddr %[3]s oifname "ingress0" counter name nat-ingress0
		%[1]s saddr %[3]s oifname "mgmt0" counter name nat-mgmt0
	}
}
`

// serves gives a node its datapath of services, and its pod the program behind
// them.
func (c *cluster) serves(n *lab.Node) {
	c.t.Helper()
	c.balance(n, n)
	for _, port := range []int{ebpfPort, natPort} {
		c.serve(n.Pod, port)
	}
}

// balance has a node deliver the services' packets to the pod of a node: to each
// node's own, or to the same on all nodes, as one that balances consistently chooses
// the same for a connection, whichever node it comes in by.
func (c *cluster) balance(n, to *lab.Node) {
	c.t.Helper()
	for _, f := range routing.Families {
		family, icmp := "ip", "icmp"
		if f == routing.IPv6 {
			family, icmp = "ip6", "icmpv6"
		}
		pod := to.PodAddr(f)
		rules := fmt.Sprintf(balanceRules, family, vipEBPF.Of(f), vipNAT.Of(f), pod, netip.AddrPortFrom(pod, natPort), icmp, lab.WorldAddr.Of(f))
		_, err := n.ExecInput(c.t.Context(), strings.NewReader(rules), "nft", "-f", "-")
		c.must(err)
	}
}

// serve has a host send back what comes in on a port, until the test ends.
func (c *cluster) serve(h *lab.Host, port int) {
	c.t.Helper()
	var l net.Listener
	c.must(h.Do(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	}))
	c.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
}

// call connects from a host to an address, sends a line and waits for it to come
// back.
func call(from *lab.Host, to netip.Addr, wait time.Duration) error {
	var conn net.Conn
	err := from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(to, servicePort).String(), wait)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	want := "the same comes back"
	if _, err := conn.Write([]byte(want)); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != want {
		return errors.New("something else came back")
	}
	return nil
}

// replies counts, over all nodes, the packets that services have answered with,
// by datapath and link: "ebpf-ingress0".
func (c *cluster) replies(f routing.Family) map[string]uint64 {
	c.t.Helper()
	all := map[string]uint64{}
	table := map[routing.Family]string{routing.IPv4: "ip", routing.IPv6: "ip6"}[f]
	for _, n := range c.Nodes {
		out, err := n.Exec(c.t.Context(), "nft", "list", "counters", "table", table, "replies")
		c.must(err)
		for _, m := range counterText.FindAllStringSubmatch(out, -1) {
			packets, err := strconv.ParseUint(m[2], 10, 64)
			c.must(err)
			all[m[1]] += packets
		}
	}
	return all
}

var counterText = regexp.MustCompile(`counter (\S+) \{\s*packets (\d+)`)
