package engine

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// recoverLinks stands in for a ledger that cannot be read: which networks a link had
// that is down now, nothing but our own guard and fence in the kernel says any more,
// and these must not go because of that. A link without a gateway that shows no network
// of a family is taken to have had those that are guarded, another those that are only
// fenced, as far as neither the configuration nor another link explains them. Should
// several links come by one network, that does no harm: it stops what was stopped, until
// the link shows its own.
func (e *Engine) recoverLinks(cfg *routing.Config) {
	if !e.ledger.unread {
		return
	}
	e.ledger.unread = false
	links := make(map[string][]netip.Prefix)
	guarded, fenced := e.stopped(cfg)
	for i := range cfg.Classes {
		c := &cfg.Classes[i]
		if _, done := links[c.Link]; done || c.Delegated {
			continue
		}
		nets := guarded
		if slices.ContainsFunc(cfg.Classes, func(o routing.Class) bool { return o.Link == c.Link && o.Gateway() }) {
			nets = fenced
		}
		if links[c.Link] = slices.Clone(nets); len(nets) > 0 {
			e.log.Warn("networks of a link taken from guard and fence", "link", c.Link, "networks", nets)
		}
	}
	e.ledger.Links = links
}

// stopped returns the networks that our guard and our fence in the kernel stop, and
// that the configuration does not name and no link has.
func (e *Engine) stopped(cfg *routing.Config) (guarded, fenced []netip.Prefix) {
	explained := make(map[netip.Prefix]bool)
	for i := range cfg.Networks {
		for _, p := range cfg.Networks[i].Prefixes {
			explained[p] = true
		}
	}
	for i := range e.kernel.Links {
		for _, a := range e.kernel.Links[i].Addrs {
			explained[a.Prefix.Masked()] = true
		}
	}
	add := func(list *[]netip.Prefix, p netip.Prefix) {
		if p.IsValid() && p.Bits() > 0 && !explained[p] {
			explained[p] = true
			*list = append(*list, p)
		}
	}
	own := cfg.Owns(ownership(e.ledger.Ledger))
	for _, r := range e.kernel.Rules {
		if own.HasRule(&r) && routing.RuleStage(r) == routing.StageGuard {
			add(&guarded, r.To)
		}
	}
	for _, metric := range [...]uint32{routing.MetricGuard, routing.MetricFence} {
		list := &guarded
		if metric == routing.MetricFence {
			list = &fenced
		}
		for i := range e.kernel.Routes {
			if r := &e.kernel.Routes[i]; r.Metric == metric && r.Type == routing.Unreachable && own.HasRoute(r) {
				add(list, r.Dst)
			}
		}
	}
	return guarded, fenced
}
