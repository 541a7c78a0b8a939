package server

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// ClassesService is the name under which the health service (grpc.health.v1) says
// whether this node's classes work. A Check whose answer is NOT_SERVING says why in
// the trailer ReasonTrailer, for people.
const (
	ClassesService = "netclass.v1.Classes"
	ReasonTrailer  = "netclass-reason-bin"
)

// healthService is the health service, in step with the state. Under the empty name,
// and the API's, a daemon is well unless it is degraded: it may have to wait for a
// link or a configuration, which no restart would bring. Under ClassesService it is
// well only when its classes work.
type healthService struct {
	*health.Server
	unwell atomic.Pointer[string] // why the classes do not work; empty: they do
}

func newHealthService() *healthService {
	h := &healthService{Server: health.NewServer()}
	h.unwell.Store(new(string))
	return h
}

// Check implements grpc.health.v1.Health.
func (h *healthService) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	resp, err := h.Server.Check(ctx, req)
	why := *h.unwell.Load()
	if err == nil && why != "" && req.GetService() == ClassesService && resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = grpc.SetTrailer(ctx, metadata.Pairs(ReasonTrailer, why))
	}
	return resp, err
}

// follow keeps the health service in step with a source until ctx is done.
func (h *healthService) follow(ctx context.Context, source Source) {
	st := source.State()
	for {
		h.set(st)
		next, err := source.Wait(ctx, st.Sequence)
		if err != nil {
			return
		}
		st = next
	}
}

func (h *healthService) set(st *routing.State) {
	daemon := serving(st.Health != routing.Degraded)
	h.SetServingStatus("", daemon)
	h.SetServingStatus(pb.NetClassService_ServiceDesc.ServiceName, daemon)
	why := clip(unwell(st), maxText)
	h.unwell.Store(&why)
	h.SetServingStatus(ClassesService, serving(why == ""))
}

func serving(well bool) healthpb.HealthCheckResponse_ServingStatus {
	if well {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}

// unwell says why the classes of a node do not work; empty: they do, or there is no
// configuration. What is missing because somebody drains the node is as it should be,
// and a peer that is away is that peer's matter.
func unwell(st *routing.State) string {
	if st.Pass.Passes == 0 {
		return "it has not looked at the kernel yet"
	}
	if c := st.Config.Config; c != nil && !c.Idle() {
		if c.Cluster != nil && !st.Inventory.Known() {
			return "the nodes have not been read yet"
		}
		for i := range st.Plan.Classes {
			if s := &st.Plan.Classes[i]; s.Health == routing.Waiting || s.Health == routing.Degraded {
				return fmt.Sprintf("class %s: %s", s.Class.Name, s.Reason)
			}
		}
		for i := range c.Tables {
			if why := tableLacks(st, &c.Tables[i]); why != "" {
				return fmt.Sprintf("table %s: %s", c.Tables[i].Name, why)
			}
		}
		if why := meshDown(st); why != "" {
			return why
		}
	}
	if st.Health == routing.Degraded {
		return degradedBy(st)
	}
	return ""
}

// degradedBy says what a daemon is degraded by: by one of its own parts, if any of them
// has something to say.
func degradedBy(st *routing.State) string {
	at := slices.IndexFunc(st.Conditions, func(c routing.Condition) bool {
		return slices.Contains([]string{"kernel", "config", "inventory", "speaker", "state", "router"}, c.Object)
	})
	if at = max(at, 0); at < len(st.Conditions) {
		return fmt.Sprintf("the daemon is degraded: %s: %s", st.Conditions[at].Object, st.Conditions[at].Message)
	}
	return "the daemon is degraded"
}

// tableLacks says which link of a table is not there, or that its own pods are left
// to main; empty: neither.
func tableLacks(st *routing.State, t *routing.Table) string {
	links := slices.Clone(t.Routes.Connected)
	if p := t.Routes.Peers; p != nil {
		links = append(links, p.Link, p.Fallback.Link)
	}
	if d := t.Routes.Default; d != nil {
		links = append(links, d.Link)
	}
	own := t.Routes.Own
	if own != nil {
		links = append(links, own.Link)
	}
	for _, link := range links {
		if link != "" && st.Kernel.Link(link) == nil && !drainedLink(st, link) {
			return "link " + link + " does not exist"
		}
	}
	if own == nil || own.Link == "" {
		return ""
	}
	if self := st.Inventory.Node(st.Node); self != nil && len(self.PodCIDRs) == 0 {
		return "this node has no pod CIDR yet"
	}
	for i := range st.Plan.Routes {
		if r := &st.Plan.Routes[i]; r.Table == t.ID && r.Metric == routing.MetricPath && r.Type == routing.Throw {
			return fmt.Sprintf("own pods of %s cannot be reached by link %s", r.Dst, own.Link)
		}
	}
	return ""
}

// drainedLink reports whether a drain of this node has taken out the class of a link.
func drainedLink(st *routing.State, link string) bool {
	return slices.ContainsFunc(st.Plan.Classes, func(c routing.ClassStatus) bool { return c.Class.Link == link && c.Health.TakenOut() })
}

// meshDown says that no session with another node is up, though some should be;
// empty: one is. What is held because its session has just ended counts as up.
func meshDown(st *routing.State) string {
	if b := st.Config.Config.BGP; b == nil || b.Mesh == nil || drainedLink(st, b.Mesh.Link) {
		return ""
	}
	wanted := map[string]bool{} // and whether it has been up since we started
	for i := range st.Peers {
		p := &st.Peers[i]
		if p.Neighbor.Upstream {
			continue
		}
		been := p.Session.Cause != routing.CauseNone
		if p.Session.State == routing.Established || p.Held && been {
			return ""
		}
		name := p.Neighbor.Key.Peer
		if n := st.Inventory.Node(name); n == nil || !n.NotReady {
			wanted[name] = wanted[name] || been
		}
	}
	if len(wanted) == 0 {
		return ""
	}
	var one string
	for name, been := range wanted {
		if len(wanted) == 1 && been {
			return "" // the only one that there is has gone away
		}
		if one == "" || name < one {
			one = name
		}
	}
	return fmt.Sprintf("no session of the mesh is up, of %d nodes': %s", len(wanted), meshReason(st, one))
}

// meshReason says why the sessions with a node are not up.
func meshReason(st *routing.State, name string) string {
	for i := range st.Peers {
		if p := &st.Peers[i]; p.Neighbor.Key.Peer == name && !p.Neighbor.Upstream {
			why := p.Reason
			if why == "" {
				why = p.Session.State.String()
			}
			return p.Neighbor.Key.String() + ": " + why
		}
	}
	return name
}
