package migrate

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// announcing is what has a BIRD tell the router of the load balancer addresses.
const announcing = `
ipv4 table vips4;
ipv6 table vips6;
protocol static pool4 { ipv4 { table vips4; }; route %[5]s unreachable; }
protocol static pool6 { ipv6 { table vips6; }; route %[6]s unreachable; }
template bgp udm { hold time 9; keepalive time 3; connect retry time 2; connect delay time 1; error wait time 1, 4; }
protocol bgp udm4 from udm { local %[1]s %[7]s as 64512; neighbor %[2]s as 64513; ipv4 { table vips4; import none; export all; }; }
protocol bgp udm6 from udm { local %[3]s %[7]s as 64512; neighbor %[4]s as 64513; ipv6 { table vips6; import none; export all; }; }
`

// announcingOf gives it for a node. A second BIRD there listens on a port of its own,
// as nobody asks it for sessions.
func announcingOf(n *node, listen string) string {
	addr := func(host int, f routing.Family) string { return lab.ClientAddr(lab.Ingress, host, f) }
	const router = 254
	return fmt.Sprintf(announcing, addr(n.Number, routing.IPv4), addr(router, routing.IPv4), addr(n.Number, routing.IPv6), addr(router, routing.IPv6),
		lab.LoadBalancers.IPv4, lab.LoadBalancers.IPv6, listen)
}

// vip is a load balancer address; each node serves it itself.
var vip = routing.PerFamily[netip.Addr]{IPv4: netip.MustParseAddr("10.47.64.10"), IPv6: netip.MustParseAddr("fd00:47:64::10")}

// served makes a cluster by hand whose router sends the load balancer addresses to
// the nodes that announce them, and spreads them.
func (s *story) served() {
	s.t.Helper()
	file := s.Router.File("bird.conf")
	text, err := os.ReadFile(file)
	s.must(err)
	s.must(os.WriteFile(file, append(text, `
protocol kernel { merge paths on; ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel { merge paths on; ipv6 { import none; export where source = RTS_BGP; }; }
`...), 0o644))
	s.must(s.router.Order("configure"))
	for _, n := range s.nodes {
		for _, f := range routing.Families {
			_, err := n.Exec(s.t.Context(), "ip", "addr", "add", vip.Of(f).String(), "dev", "lo")
			s.must(err)
		}
	}
}

// announcers waits until the router's kernel has the load balancer addresses by that
// many nodes, in both families.
func (s *story) announcers(want int) {
	s.t.Helper()
	s.within(fmt.Sprintf("%d announcers", want), func() error {
		for _, f := range routing.Families {
			out, err := s.Router.Exec(s.t.Context(), "ip", "-"+strings.TrimPrefix(f.String(), "ipv"), "route", "show", lab.LoadBalancers.Of(f).String())
			if err != nil {
				return err
			}
			if got := strings.Count(out, "via "); got != want {
				return fmt.Errorf("%d of %s: %s", got, lab.LoadBalancers.Of(f), out)
			}
		}
		return nil
	})
}

// TestAnnouncements moves the load balancer addresses from whoever announces them to
// netclassd, and one node's back. None that the world sends to one may be lost, and no
// node goes before the one that went last announces again.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	t.Run("BIRD", func(t *testing.T) {
		t.Parallel()
		s := announced(t, nil, func(s *story, n *node) {
			text, err := os.ReadFile(n.File("bird.conf"))
			s.must(err)
			s.must(os.WriteFile(n.File("bird.conf"), append(text, announcingOf(n, "")...), 0o644))
			s.must(n.bird.Order("configure"))
		})
		for _, step := range []string{"configuration", "beside", "mesh"} {
			for _, n := range s.nodes {
				s.do(step, n)
				s.announcers(len(s.nodes))
			}
		}
		for _, step := range []string{"undo-mesh", "mesh"} {
			s.do(step, s.nodes[0])
			s.announcers(len(s.nodes))
		}
		s.nothingLost()
	})
	t.Run("beside it", func(t *testing.T) {
		t.Parallel()
		speakers := map[*node]*lab.Process{}
		begin := func(s *story, n *node) {
			s.t.Helper()
			config := filepath.Join(n.d.Dir, "cni.conf")
			s.must(os.WriteFile(config, []byte("router id "+n.Addr(lab.NodeNet, routing.IPv4).String()+";\nprotocol device {}\n"+announcingOf(n, "port 1790")), 0o644))
			p, err := n.Start(lab.Command{Path: need.Program(t, "bird"), Name: "cni", Args: []string{"-f", "-c", config, "-s", config + ".ctl", "-P", config + ".pid"}})
			s.must(err)
			speakers[n] = p
		}
		s := announced(t, ofAnnouncing, begin)
		for _, step := range []string{"configuration", "announced-beside", "beside", "mesh"} {
			s.everywhere(step)
		}
		s.announcers(len(s.nodes))
		for _, n := range s.nodes {
			s.must(speakers[n].Stop()) // the label
			s.do("announce", n)
			s.announcers(len(s.nodes))
		}
		one := s.nodes[0]
		s.do("undo-announce", one)
		begin(s, one)
		s.announcers(len(s.nodes))
		s.nothingLost()
	})
}

// announced makes a cluster by hand on whose nodes somebody announces the load
// balancer addresses, and has the world ping one.
func announced(t *testing.T, own []string, begin func(*story, *node)) *story {
	t.Helper()
	s := read(t, own)
	s.traffic = &traffic{cluster: byHand(t)}
	s.last = s.read()
	s.served()
	for _, n := range s.nodes {
		begin(s, n)
	}
	s.announcers(len(s.nodes))
	for _, f := range routing.Families {
		s.within("an answer from "+vip.Of(f).String(), func() error {
			r, err := s.Router.World.Ping(vip.Of(f), 1)
			if err == nil && r.Lost > 0 {
				err = fmt.Errorf("%v", r)
			}
			return err
		})
		p, err := s.Router.World.StartPing(vip.Of(f), lab.PingOptions{})
		s.must(err)
		s.pingers = append(s.pingers, p)
	}
	return s
}

// nothingLost ends a story.
func (s *story) nothingLost() {
	s.t.Helper()
	for _, p := range s.end() {
		if p.sent == 0 || p.lost > 0 || p.router > 0 {
			s.t.Errorf("%s: %d of %d pings from the world lost, %d cluster packets at the router", p.name, p.lost, p.sent, p.router)
		}
	}
}
