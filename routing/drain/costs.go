package drain

import (
	"fmt"
	"slices"

	"netclass.dev/routing"
)

// costs says what a drain costs, each in a sentence; only what applies.
func costs(s *routing.State, req *routing.DrainRequest) (said []string) {
	cfg, links := s.Config.Config, drainable(s, req)
	if cfg == nil {
		return nil
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if d := t.Routes.Default; d != nil && slices.Contains(links, d.Link) && hasDefault(s, t.ID, d.Link) {
			said = append(said, egressCosts(s, req, t)...)
		}
	}
	said = unique(said) // two tables may have one link
	for _, link := range cfg.ImportLinks("") {
		if n := imported(s, link); n > 0 && slices.Contains(links, link) {
			said = append(said, importCost(s, req, link, n))
		}
	}
	if n := toRouters(s, req); n > 0 {
		said = append(said, fmt.Sprintf("%s come in by other nodes: a router that balances over several may move connections of theirs too", prefixes(n)))
		said = append(said, judgeOf(s, req).unknownAnnouncers()...)
	}
	if down := noRouter(s, links); down != "" {
		said = append(said, down)
	}
	for i := range cfg.Tables {
		p := cfg.Tables[i].Routes.Peers
		if p == nil || !slices.Contains(links, p.Link) {
			continue
		}
		switch {
		case p.Fallback.Main:
			said = append(said, fmt.Sprintf("pod to pod traffic of this node leaves %s for where the main table leads", p.Link))
		case !p.Fallback.None():
			said = append(said, fmt.Sprintf("pod to pod traffic of this node moves from %s to %s, and shares it with what else is there", p.Link, p.Fallback.Link))
		}
	}
	if names := along(cfg, req.Classes, links); len(names) > 0 {
		said = append(said, fmt.Sprintf("what is on the same links is taken out too: %s", list(names)))
	}
	return said
}

// egressCosts says what it costs that the default of a table goes: of pods, and of
// what else is looked up there, as the replies of load balancer addresses.
func egressCosts(s *routing.State, req *routing.DrainRequest, t *routing.Table) (said []string) {
	link := t.Routes.Default.Link
	if req.KeepEgress {
		return []string{fmt.Sprintf("the way out stays on %s, as asked for: that link is not free", link)}
	}
	pods := len(t.Rules) == 0 // somebody else's lead there
	for _, r := range t.Rules {
		if pods = pods || r.From == "" || r.From == "pods"; r.From != "" && r.From != "pods" {
			said = append(said, fmt.Sprintf("what is still answered from %s leaves by %s instead of %s", r.From, mainDefault(s), link))
		}
	}
	if pods {
		text := fmt.Sprintf("pods reach the world by %s instead of %s; connections that are masqueraded on %s are reset", mainDefault(s), link, link)
		said = append([]string{text}, said...)
	}
	return said
}

// imported counts the routes over a link that routers tell of.
func imported(s *routing.State, link string) (n int) {
	if s.Kernel == nil {
		return 0
	}
	for i := range s.Kernel.Routes {
		if r := &s.Kernel.Routes[i]; r.Metric == routing.MetricImport && r.Link == link && s.Plan.Own.HasRoute(r) {
			n++
		}
	}
	return n
}

func importCost(s *routing.State, req *routing.DrainRequest, link string, n int) string {
	what := fmt.Sprintf("what routers tell of on %s (%d networks)", link, n)
	if n == 1 {
		what = fmt.Sprintf("what routers tell of on %s (1 network)", link)
	}
	if req.KeepEgress {
		return what + " stays there, as asked for: that link is not free"
	}
	return fmt.Sprintf("pods reach %s by where main leads: %s", what, mainDefault(s))
}

// noRouter says that no router on links has a session with this node, or none in one of
// the families; empty: one has in each that is configured.
func noRouter(s *routing.State, links []string) string {
	var routers []string // of those families
	var up, down []routing.Family
	for _, f := range routing.Families {
		var names []string
		one := false
		for i := range s.Peers {
			p := &s.Peers[i]
			if n := &p.Neighbor; n.Upstream && n.Key.Family == f && slices.Contains(links, n.Link) {
				names, one = append(names, n.Key.Peer), one || p.Session.State == routing.Established
			}
		}
		if one {
			up = append(up, f)
		} else if len(names) > 0 {
			routers, down = append(routers, names...), append(down, f)
		}
	}
	switch {
	case len(down) == 0:
		return ""
	case len(up) == 0:
		return fmt.Sprintf("this node has no session with %s itself: what routers are told of does not come in here now", list(unique(routers)))
	}
	return fmt.Sprintf("this node has no %s session with %s itself: what routers are told of in %s does not come in here now", down[0], list(routers), down[0])
}

// along are the classes that nobody named, but whose link is taken out.
func along(cfg *routing.Config, named, links []string) (names []string) {
	for i := range cfg.Classes {
		if c := &cfg.Classes[i]; len(named) > 0 && slices.Contains(links, c.Link) && !slices.Contains(named, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

func prefixes(n int) string {
	if n == 1 {
		return "packets to the one prefix that routers are told of here"
	}
	return fmt.Sprintf("packets to the %d prefixes that routers are told of here", n)
}

// hasDefault reports whether a table has its default over a link.
func hasDefault(s *routing.State, id routing.TableID, link string) bool {
	return s.Kernel != nil && slices.ContainsFunc(s.Kernel.Routes, func(r routing.Route) bool {
		return r.Table == id && r.Dst.Bits() == 0 && r.Link == link
	})
}

// mainDefault names the link of main's default, of each family if they differ.
func mainDefault(s *routing.State) string {
	var links []string
	for _, f := range routing.Families {
		best := routing.Route{Metric: ^uint32(0)}
		for i := range s.Kernel.Routes {
			r := &s.Kernel.Routes[i]
			if r.Table == routing.MainID && r.Family() == f && r.Dst.Bits() == 0 && r.Link != "" && !r.Type.Reject() && r.Metric < best.Metric {
				best = *r
			}
		}
		if best.Link != "" && !slices.Contains(links, best.Link) {
			links = append(links, best.Link)
		}
	}
	if len(links) == 0 {
		return "no link (main has no default)"
	}
	return list(links)
}
