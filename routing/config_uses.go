package routing

import "slices"

// What a configuration lays claim to in the kernel, and what it reads of nodes.

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
