package server

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"netclass.dev/routing"
)

// view is one state with the look-ups that showing it takes. It is immutable but
// for what it works out when first asked.
type view struct {
	*routing.State
	plan   *routing.Plan   // never nil
	kernel *routing.Kernel // never nil
	config *routing.Config // never nil

	tables  map[routing.TableID]string
	own     map[netip.Prefix]bool   // this node's pod CIDRs
	peerOf  map[netip.Prefix]string // whose pod CIDR a prefix is
	held    map[netip.Addr]bool     // next hops whose session is down and held
	drained map[string]bool         // the other nodes that are drained, or being drained
	links   map[string]*routing.Link
	rows    func() map[routing.TableID][]routeRow
	rules   func() []ruleRow
	objects func() *objects
	// announcements are what is announced, by who hears it.
	announcements func() map[heard][]*routing.Announcement
}

func newView(st *routing.State) *view {
	v := &view{State: st, plan: st.Plan, kernel: st.Kernel, config: st.Config.Config}
	if v.plan == nil {
		v.plan = &routing.Plan{}
	}
	if v.kernel == nil {
		v.kernel = &routing.Kernel{}
	}
	if v.config == nil {
		v.config = &routing.Config{}
	}
	v.index()
	v.rows = sync.OnceValue(v.routeRows)
	v.rules = sync.OnceValue(v.ruleRows)
	v.objects = sync.OnceValue(v.watchObjects)
	v.announcements = sync.OnceValue(v.announcementsByHearer)
	return v
}

func (v *view) index() {
	v.tables = map[routing.TableID]string{
		routing.MainID: routing.MainTable, routing.LocalID: "local", routing.DefaultID: "default",
	}
	for _, t := range v.config.Tables {
		v.tables[t.ID] = t.Name
	}
	for _, t := range v.plan.Tables {
		v.tables[t.ID] = t.Name
	}
	v.own, v.peerOf, v.held = map[netip.Prefix]bool{}, map[netip.Prefix]string{}, map[netip.Addr]bool{}
	for i := range v.Peers {
		p := &v.Peers[i]
		for _, path := range p.Accepted {
			v.peerOf[path.Prefix] = p.Neighbor.Key.Peer
		}
		if p.Held {
			v.held[p.Neighbor.Remote] = true
		}
	}
	for i := range v.Inventory.Nodes {
		n := &v.Inventory.Nodes[i]
		for _, cidr := range n.PodCIDRs {
			if n.Name == v.Node {
				v.own[cidr] = true
			} else if v.peerOf[cidr] == "" {
				v.peerOf[cidr] = n.Name
			}
		}
	}
	v.drained = make(map[string]bool, len(v.plan.Drained))
	for _, node := range v.plan.Drained {
		v.drained[node] = true
	}
	v.links = make(map[string]*routing.Link, len(v.kernel.Links))
	for i := range v.kernel.Links {
		v.links[v.kernel.Links[i].Name] = &v.kernel.Links[i]
	}
}

// linkUsable reports whether packets can leave by the link.
func (v *view) linkUsable(name string) bool { return v.links[name].Usable() }

// tableStatus returns how a configured table stands, or nil.
func (v *view) tableStatus(id routing.TableID) *routing.TableStatus {
	i := slices.IndexFunc(v.plan.Tables, func(t routing.TableStatus) bool { return t.ID == id })
	if i < 0 {
		return nil
	}
	return &v.plan.Tables[i]
}

// keepView is how long a view that nobody asks for is kept: it holds a whole
// state in memory.
const keepView = 5 * time.Second

// viewCache keeps the newest view, so that the pages of a list and the clients
// of Watch share its work.
type viewCache struct {
	mu    sync.Mutex
	view  *view
	clear *time.Timer
}

// of returns the view of st.
func (c *viewCache) of(st *routing.State) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clear == nil {
		c.clear = time.AfterFunc(keepView, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.view = nil
		})
	} else {
		c.clear.Reset(keepView)
	}
	if c.view == nil || c.view.State != st {
		c.view = newView(st)
	}
	return c.view
}

// view returns the view of the newest state.
func (s *Server) view() *view { return s.views.of(s.source.State()) }
