package routing

import "slices"

// What a configuration lays claim to in the kernel, what it reads of nodes, and
// what a drain can take out of it.

// Owns returns what the configuration makes ours, beside what is ours already.
func (c *Config) Owns(own Ownership) Ownership {
	own.Protocols = append(slices.Clone(own.Protocols), c.Daemon.Protocol)
	own.Tables = slices.Clone(own.Tables)
	own.Priorities = slices.Clone(own.Priorities)
	for i := range c.Tables {
		own.Tables = append(own.Tables, c.Tables[i].ID)
		for _, r := range c.Tables[i].Rules {
			for _, f := range Families {
				if p := r.Priority.Of(f); p != 0 {
					own.Priorities = append(own.Priorities, p)
				}
			}
		}
	}
	if c.Guard != nil {
		own.Tables = append(own.Tables, MainID)
		if c.Guard.AsRules {
			own.Priorities = append(own.Priorities, c.Guard.Priority, c.Guard.Priority+1)
		}
	}
	if c.BGP != nil && len(c.BGP.Upstreams) > 0 {
		own.Priorities = append(own.Priorities, VIPPriority)
	}
	return own
}

// VIPPriority is where `iif LINK to VIPs unreachable` stands: after every table
// that may deliver them, just before main would send them back to the router.
const VIPPriority uint32 = 32761

// AddressKey is an annotation of nodes that an address of a family is read from.
type AddressKey struct {
	Annotation string
	Family     Family
}

// AddressKeys returns the annotations that the configuration reads addresses
// from, each once.
func (c *Config) AddressKeys() []AddressKey {
	var keys []AddressKey
	add := func(refs PerFamily[AddressRef]) {
		for _, f := range Families {
			key := AddressKey{refs.Of(f).Annotation, f}
			if key.Annotation != "" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	if c.Cluster != nil {
		for _, a := range c.Cluster.Addresses {
			add(a.Ref)
		}
	}
	for i := range c.Tables {
		if d := c.Tables[i].Routes.Default; d != nil {
			add(d.Gateway)
		}
	}
	if c.BGP != nil {
		for i := range c.BGP.Upstreams {
			add(c.BGP.Upstreams[i].Address)
		}
	}
	return keys
}

// Annotations returns the annotations of nodes that the configuration reads, by
// name.
func (c *Config) Annotations() []string {
	var names []string
	for _, key := range c.AddressKeys() {
		names = append(names, key.Annotation)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// DrainLinks returns the links that a drain of the named classes takes out, sorted,
// of no names those of all: a link can be drained where it carries class paths, a
// default, the mesh or a session with a router. Unknown are the names that no
// class has, or one whose link carries none of that.
func (c *Config) DrainLinks(classes []string) (links, unknown []string) {
	all := c.drainable()
	if len(classes) == 0 {
		return all, nil
	}
	for _, name := range classes {
		at := slices.IndexFunc(c.Classes, func(k Class) bool { return k.Name == name })
		if at < 0 || !slices.Contains(all, c.Classes[at].Link) {
			unknown = append(unknown, name)
		} else {
			links = append(links, c.Classes[at].Link)
		}
	}
	slices.Sort(links)
	return slices.Compact(links), unknown
}

// ImportLinks returns the links over which routers tell of networks for a table,
// sorted; of no table, for any.
func (c *Config) ImportLinks(table string) (links []string) {
	if c.BGP == nil {
		return nil
	}
	for i := range c.BGP.Upstreams {
		u := &c.BGP.Upstreams[i]
		if slices.ContainsFunc(u.Import, func(in Import) bool { return table == "" || in.Table == table }) {
			links = append(links, u.Link)
		}
	}
	slices.Sort(links)
	return slices.Compact(links)
}

// drainable returns the links that carry something a drain can take out, sorted.
func (c *Config) drainable() []string {
	var links []string
	for i := range c.Tables {
		if p := c.Tables[i].Routes.Peers; p != nil {
			links = append(links, p.Link)
		}
		if d := c.Tables[i].Routes.Default; d != nil {
			links = append(links, d.Link)
		}
	}
	if c.BGP != nil {
		if c.BGP.Mesh != nil {
			links = append(links, c.BGP.Mesh.Link)
		}
		for i := range c.BGP.Upstreams {
			links = append(links, c.BGP.Upstreams[i].Link)
		}
	}
	slices.Sort(links)
	return slices.Compact(links)
}
