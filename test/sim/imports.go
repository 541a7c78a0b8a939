package sim

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// router is where imports may lead, by family: the gateway itself.
var router = map[routing.Family]netip.Addr{routing.IPv4: addr("10.47.0.254"), routing.IPv6: addr("fd00:47::fe")}

// What the router may say: what it may be asked about, and the cluster's own.
var routerWords = map[routing.Family][]netip.Prefix{
	routing.IPv4: prefixes("172.16.0.0/12", "172.16.9.0/24", "192.0.2.0/24", "0.0.0.0/0", "10.0.0.0/8", "10.244.0.0/16", "10.244.2.0/24",
		"10.46.0.0/24", "10.48.0.0/23", "10.48.0.2/32", "10.49.0.0/24", "10.40.0.0/24", "10.96.0.10/32", "10.47.64.9/32"),
	routing.IPv6: prefixes("2001:db8::/32", "2001:db8:9::/48", "::/0", "fd00::/8", "fd00:10:244::/48", "fd00:10:244:2::/64",
		"fd00:46::/64", "fd00:48::2/128", "fd00:49::/64", "fd00:40::/64", "fd00:10:96::10/128"),
}

func prefixes(texts ...string) (ps []netip.Prefix) {
	for _, t := range texts {
		ps = append(ps, prefix(t))
	}
	return ps
}

// routerSpeaks lets the router announce some of that.
func (w *world) routerSpeaks() {
	f := routing.Families[w.pick(2)]
	w.said[f] = nil
	for _, p := range routerWords[f] {
		if w.pick(3) == 0 {
			w.said[f] = append(w.said[f], routing.Path{Prefix: p, NextHop: router[f]})
		}
	}
	w.note("the router announces %v", w.said[f])
	w.speaker.routerSays()
	w.look()
}

// routerSays tells again what the router announces.
func (s *speaker) routerSays() {
	for _, key := range s.keys() {
		if se := s.sessions[key]; se.neighbor.Upstream && se.neighbor.MaxPrefixes > 0 && se.State == routing.Established && se.EndOfRIB {
			se.Paths = slices.Clone(s.w.said[key.Family])
		}
	}
}

// checkImports demands that the kernel has of a router only what it says now, and
// all that it says of the networks that are asked for.
func (w *world) checkImports(k *routing.Kernel) {
	said := func(p netip.Prefix) bool {
		return slices.ContainsFunc(w.speaker.keys(), func(key routing.SessionKey) bool {
			se := w.speaker.sessions[key]
			return se.neighbor.Upstream && slices.ContainsFunc(se.Paths, func(path routing.Path) bool { return path.Prefix == p })
		})
	}
	has := func(p netip.Prefix) bool {
		return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
			return r.Protocol == ours && r.Metric == routing.MetricImport && r.Dst == p
		})
	}
	for _, r := range k.Routes {
		if r.Protocol == ours && r.Metric == routing.MetricImport && !said(r.Dst) && w.listed.Synced && w.hand.seen {
			w.violated(8, "%s stays, which no router says", r)
		}
	}
	for f, good := range map[routing.Family]netip.Prefix{routing.IPv4: prefix("172.16.9.0/24"), routing.IPv6: prefix("2001:db8:9::/48")} {
		if said(good) && !has(good) && w.addressUsable("ingress0", hosts()[2].addrs[f/6%2].Addr()) && !w.blocked(k, w.config.Tables[0].ID) {
			w.violated(8, "the router announces %s, which is not imported", good)
		}
	}
}

// imports reports whether something is imported.
func (w *world) imports() bool {
	return slices.ContainsFunc(w.kernel.Picture().Routes, func(r routing.Route) bool {
		return r.Protocol == ours && r.Metric == routing.MetricImport
	})
}
