package promise

import (
	"netclass.dev/routing"
)

// promised is a promise with the flows that prove it.
type promised struct {
	class   *routing.Class
	traffic routing.Traffic
	family  routing.Family
	from    source
	targets []*target
	why     string // why there is no flow
}

// enumerate lists what the classes promise. A class whose link belongs to a pod
// promises nothing of this namespace, and a network without prefixes of a family
// nothing in it.
func (v *View) enumerate() []promised {
	var all []promised
	for i := range v.Config.Classes {
		c := &v.Config.Classes[i]
		if c.Delegated {
			continue
		}
		for _, t := range c.Traffic {
			for _, f := range routing.Families {
				if v.has(t.From, f) && v.has(t.To, f) {
					all = append(all, v.promised(c, t, f))
				}
			}
		}
	}
	return all
}

// has reports whether a network has anything in the family. The world has only
// where the cluster does.
func (v *View) has(network string, f routing.Family) bool {
	return network == routing.World || len(v.network(network, f)) > 0
}

func (v *View) promised(c *routing.Class, t routing.Traffic, f routing.Family) promised {
	p := promised{class: c, traffic: t, family: f}
	if v.far(t.From) {
		who := "the world"
		if t.From != routing.World {
			who = t.From
		}
		p.why = "by which link " + who + "'s packets come in is decided outside"
		return p
	}
	if p.from, p.why = v.source(t.From, f); p.why != "" {
		return p
	}
	if p.targets, p.why = v.targets(t.To, f); p.why != "" {
		return p
	}
	return p
}
