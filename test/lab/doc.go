// Package lab is a Kubernetes cluster's network on one machine: its nodes, the
// switch between them, the upstream router ("udm") and the world behind it, as
// network namespaces.
//
// Each node has the links mgmt0, node0, ingress0 and pod0, one on each of the
// switch's VLANs, and cilium_host with a pod behind it; main holds the routes
// that a CNI makes. Demo, tests and benches start real daemons in it, pull its
// cables and count its packets.
//
// A lab leaves nothing behind. Its namespaces have no name: they are held by
// file descriptors of this process and by the processes started in them, and
// those are killed by the kernel when this process ends, however it ends.
package lab
