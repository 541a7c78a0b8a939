package intent

import (
	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

func (r *reader) readCluster(n *strictyaml.Node) {
	if n == nil {
		return
	}
	m := n.Map()
	nodesFile, kubernetes := m.Get("nodesFile"), m.Get("kubernetes")
	podCIDRs, publish := m.Get("podCIDRs"), m.Get("publish")
	c := &routing.Cluster{
		NodesFile: r.path(nodesFile),
		PodCIDRs:  podCIDRs.Enum("node", "node", "ciliumnode", "calico"),
		Publish:   publish.Enum("off", "off", "missing", "force"),
	}
	if nodesFile.IsText() && c.NodesFile == "" {
		nodesFile.Errorf("nodesFile must name a file")
	}
	if m.OK() && (nodesFile == nil) == (kubernetes == nil) {
		n.Errorf("cluster needs exactly one of nodesFile and kubernetes")
	}
	if kubernetes != nil {
		c.Kubernetes = r.readKubernetes(kubernetes)
	}
	if c.PodCIDRs != "node" && kubernetes == nil && nodesFile != nil {
		podCIDRs.Errorf("podCIDRs: %s needs kubernetes; a nodes file lists them itself", c.PodCIDRs)
	}
	if c.Publish != "off" && kubernetes == nil && nodesFile != nil {
		publish.Errorf("publish: %s needs kubernetes; a nodes file is not written to", c.Publish)
	}
	for _, f := range m.Get("addresses").Map().Fields() {
		c.Addresses = append(c.Addresses, r.readLinkAddress(f))
	}
	m.Done()
	r.config.Cluster = c
}

func (r *reader) readKubernetes(n *strictyaml.Node) *routing.Kubernetes {
	if !n.IsMap() {
		n.Errorf("kubernetes must be a mapping; {} means the credentials of the pod")
		return nil
	}
	m := n.Map()
	k := &routing.Kubernetes{Kubeconfig: r.path(m.Get("kubeconfig")), Context: m.Get("context").Text("")}
	m.Done()
	return k
}

// readLinkAddress reads where nodes say their address on one link. An address
// itself cannot be every node's.
func (r *reader) readLinkAddress(f strictyaml.Field) routing.LinkAddress {
	a := routing.LinkAddress{Link: f.Name}
	if why := badLink(f.Name); why != "" {
		f.Errorf("%q is no name of a link: %s", f.Name, why)
	}
	a.Ref = perFamily(f.Value, func(n *strictyaml.Node, family routing.Family) routing.AddressRef {
		ref := r.addressRef(n, family)
		if ref.Addr.IsValid() {
			n.Errorf("%s cannot be every node's address on %s; write {annotation: KEY}", ref.Addr, f.Name)
		}
		return ref
	})
	needFamily(f.Value)
	r.addresses = append(r.addresses, linkPlace{f.Name, f.Value})
	return a
}
