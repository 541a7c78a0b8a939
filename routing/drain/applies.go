package drain

import (
	"slices"
	"strings"

	"netclass.dev/routing"
)

// taken returns the links that a drain under way takes out. Where one of its classes
// is no longer configured those are all: nobody knows which link it had.
func taken(s *routing.State, req *routing.DrainRequest) []string {
	cfg := s.Config.Config
	if cfg == nil {
		return nil
	}
	links, unknown := cfg.DrainLinks(req.Classes)
	if len(unknown) > 0 {
		links, _ = cfg.DrainLinks(nil)
	}
	return links
}

// stepText says what a step of a drain does to its links; empty: nothing.
func stepText(s *routing.State, req *routing.DrainRequest, step routing.DrainStep) string {
	switch step {
	case routing.DrainClaim:
		return "the others are told"
	case routing.DrainShutdown:
		if toRouters(s, req) > 0 {
			return "routers are told that this node is about to go (GRACEFUL_SHUTDOWN)"
		}
	case routing.DrainUpstream:
		if toRouters(s, req) > 0 {
			return "what was announced to routers is withdrawn"
		}
	case routing.DrainMesh:
		if overMesh(s, req) {
			return "the own pod CIDRs are withdrawn from the mesh: peers use their fallback"
		}
	case routing.DrainDefault:
		if out := waysOut(s, req); len(out) > 0 && !req.KeepEgress {
			return taking(out) + " taken out"
		}
	case routing.DrainPaths:
		if classPaths(s, req) {
			return "the class paths are taken out"
		}
	}
	return ""
}

// backText says what a step back does to the links of a drain; empty: nothing.
func backText(s *routing.State, req *routing.DrainRequest, step routing.DrainStep) string {
	switch step {
	case routing.DrainMesh:
		var what []string
		if classPaths(s, req) {
			what = append(what, "the class paths")
		}
		if !req.KeepEgress {
			what = append(what, waysOut(s, req)...)
		}
		if len(what) > 0 {
			return taking(what) + " put back"
		}
	case routing.DrainUpstream:
		if overMesh(s, req) {
			return "the own pod CIDRs are announced to the mesh"
		}
	case routing.DrainClaim:
		if advertises(s, req) {
			return "routers are told what they were told before"
		}
	}
	return ""
}

// taking begins a sentence about several things.
func taking(what []string) string {
	if verb := " is"; len(what) == 1 && what[0] == theDefault {
		return what[0] + verb
	}
	return strings.Join(what, " and ") + " are"
}

const theDefault = "the default"

// waysOut names the ways out of the pods over the links of a drain.
func waysOut(s *routing.State, req *routing.DrainRequest) (what []string) {
	cfg, links := s.Config.Config, taken(s, req)
	if cfg == nil {
		return nil
	}
	if slices.ContainsFunc(cfg.Tables, func(t routing.Table) bool {
		return t.Routes.Default != nil && slices.Contains(links, t.Routes.Default.Link)
	}) {
		what = append(what, theDefault)
	}
	if slices.ContainsFunc(cfg.ImportLinks(""), func(l string) bool { return slices.Contains(links, l) }) {
		what = append(what, "the networks that routers tell of")
	}
	return what
}

// classPaths reports whether a drain takes class paths out.
func classPaths(s *routing.State, req *routing.DrainRequest) bool {
	cfg, links := s.Config.Config, taken(s, req)
	return cfg != nil && slices.ContainsFunc(cfg.Tables, func(t routing.Table) bool {
		return t.Routes.Peers != nil && slices.Contains(links, t.Routes.Peers.Link)
	})
}

// overMesh reports whether a drain takes the mesh's link out.
func overMesh(s *routing.State, req *routing.DrainRequest) bool {
	cfg := s.Config.Config
	return cfg != nil && cfg.BGP != nil && cfg.BGP.Mesh != nil && slices.Contains(taken(s, req), cfg.BGP.Mesh.Link)
}

// advertises reports whether routers on the links of a drain are told of anything
// while there is none.
func advertises(s *routing.State, req *routing.DrainRequest) bool {
	cfg, links := s.Config.Config, taken(s, req)
	return cfg != nil && cfg.BGP != nil && slices.ContainsFunc(cfg.BGP.Upstreams, func(u routing.Upstream) bool {
		return slices.Contains(links, u.Link) && (len(u.Advertise.Networks) > 0 || u.Advertise.Services != nil)
	})
}
