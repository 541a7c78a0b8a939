package migrate

import (
	"os"
	"slices"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// Whose output is held to the guide by which test.
var (
	ofTheWay = []string{
		"before", "configuration", "beside", "undo-beside", "mesh", "undo-mesh", "rules", "undo-rules",
	}
	ofTalos      = []string{"leftovers-talos"}
	ofLeftovers  = []string{"leftovers"}
	ofPriorities = []string{"own-priorities"}
	ofAnnouncing = []string{"announced-beside", "announce", "undo-announce"}
)

// TestSteps holds that every step of the guide is some test's own, and the reverse.
func TestSteps(t *testing.T) {
	var steps []string
	for _, b := range readGuide(t) {
		if b.step != "" {
			steps = append(steps, b.step)
		}
	}
	tested := slices.Concat(ofTheWay, ofTalos, ofLeftovers, ofPriorities, ofAnnouncing)
	slices.Sort(steps)
	slices.Sort(tested)
	if !slices.Equal(steps, tested) {
		t.Errorf("the guide has the steps %v, tested are %v", steps, tested)
	}
}

// TestGuide follows the guide on all three nodes, to netclassd and back to BIRD. No
// step may cost a packet between pods, a cluster packet at the router or a
// masqueraded connection; each is undone once on the way.
func TestGuide(t *testing.T) {
	s := tell(t, ofTheWay)
	one := s.nodes[0]
	s.everywhere("before")
	s.everywhere("configuration")

	s.do("beside", one)
	s.do("undo-beside", one)
	s.everywhere("beside")

	s.do("mesh", one)
	s.rest("with one node in the mesh of BIRDs")
	s.do("undo-mesh", one)
	s.everywhere("mesh")
	s.rest("with netclassd on all nodes")

	s.everywhere("rules")

	s.everywhere("undo-rules")
	s.do("undo-mesh", one)
	s.rest("with one BIRD in the mesh")
	for _, n := range s.nodes[1:] {
		s.do("undo-mesh", n)
	}
	s.everywhere("undo-beside")
	s.rest("by hand again")

	// Back where it began: this is what there is no net under any more.
	s.must(one.bird.Stop())
	s.must(one.bird.Start())
	time.Sleep(settling)
	s.phase("BIRD restarted on k8s-1")

	phases := s.end()
	last := len(phases) - 1
	for _, p := range phases[:last] {
		s.free(p)
	}
	if p := phases[last]; p.lost == 0 || p.router == 0 {
		t.Errorf("a restart of BIRD by hand cost %d pings and %d packets at the router: the guide says that it costs some, and these counters must see it", p.lost, p.router)
	}
}

// TestTalos goes the way with what Talos makes of the commands: netclassd is not
// reloaded but stopped and started after a while, a killed BIRD's routes are taken
// out by hand, and in the end netclassd flushes by its configuration.
func TestTalos(t *testing.T) {
	t.Parallel()
	s := tell(t, ofTalos)
	s.talos = true
	for _, n := range s.nodes {
		s.commands("configuration", n)
	}
	one := s.nodes[0]
	s.everywhere("beside")
	s.must(one.bird.Kill())
	s.orders(one, "cp /etc/netclassd/mesh.yaml /etc/netclassd/config.yaml")
	s.must(one.startedAnew())
	s.within("the mesh", func() error { return s.meshed(t.Context()) })
	s.do("leftovers-talos", one)
	for _, n := range s.nodes[1:] {
		s.do("mesh", n)
	}
	s.everywhere("undo-mesh")
	for _, n := range s.nodes {
		beside, err := os.ReadFile(n.d.ConfigFile)
		s.must(err)
		s.must(n.d.WriteConfig(string(beside) + "daemon: {onExit: flush}\n"))
		s.must(n.startedAnew())
		s.within("netclassd with onExit", func() error { return s.stands(t.Context()) })
		s.must(n.d.Stop())
		s.within("by hand", func() error { return s.stands(t.Context()) })
		s.phase("onExit: flush " + n.Name)
	}
	for _, p := range s.end() {
		s.free(p)
	}
}

// TestLeftovers has BIRD killed on a node, so that its routes stay, and cleans up
// as the guide says. Then it takes netclassd away too, with no BIRD beneath: pods are
// unseparated, and what is masqueraded moves to another link.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := tell(t, ofLeftovers)
	one := s.nodes[0]
	for _, n := range s.nodes {
		s.commands("configuration", n)
		s.do("beside", n)
	}
	for _, n := range s.nodes {
		s.must(n.bird.Stop())
		s.must(n.bird.Start())
	}
	s.within("the mesh", func() error { return s.meshed(t.Context()) })
	s.phase("every BIRD restarted, with netclassd beside it")
	s.must(one.bird.Kill())
	s.orders(one, "cp /etc/netclassd/mesh.yaml /etc/netclassd/config.yaml", "netclassctl reload")
	s.within("the mesh", func() error { return s.meshed(t.Context()) })
	s.do("leftovers", one)
	s.orders(one, "systemctl stop netclassd", "netclassd flush")
	time.Sleep(time.Second)
	s.phase("flushed, without BIRD")
	phases := s.end()
	last := len(phases) - 1
	for _, p := range phases[:last] {
		s.free(p)
	}
	// The fence goes before the class paths: with the declared rules still there pods'
	// packets would stop at it in between.
	if p := phases[last]; p.lost > 0 || p.router > 0 || p.broken != len(routing.Families) {
		t.Errorf("%s: %d of %d pings lost, %d cluster packets at the router, %d connections to the world broken: the guide says none, none, and all of that node", p.name, p.lost, p.sent, p.router, p.broken)
	}
}

// TestDeclaredRulesGo takes the declared rules away as Talos before 1.13.1 does,
// and everybody's of the same family and priority with them. With priorities of
// our own, as the guide asks for there, that costs nothing.
func TestDeclaredRulesGo(t *testing.T) {
	t.Parallel()
	s := tell(t, ofPriorities)
	one := s.nodes[0]
	s.must(one.d.Start()) // idle, as the package's service is
	s.phase("netclassd idle")
	for _, n := range s.nodes {
		s.commands("configuration", n)
	}
	s.do("beside", one)
	s.do("own-priorities", one)
	s.must(one.undeclareRules(t.Context()))
	time.Sleep(time.Second)
	s.phase("the declared rules go, with priorities of our own")
	s.must(s.stands(t.Context()))
	rules, err := one.run(t.Context(), "ip -4 rule show")
	s.must(err)
	t.Logf("afterwards:\n%s", rules)

	// And with the same priorities, to know what it would have cost.
	s.must(one.declareRules(t.Context()))
	s.orders(one, "cp /etc/netclassd/beside.yaml /etc/netclassd/config.yaml", "netclassctl reload")
	s.within("the same priorities", func() error { return s.stands(t.Context()) })
	s.phase("back to the same priorities")
	s.must(one.undeclareRules(t.Context()))
	time.Sleep(time.Second)
	s.within("the rules", func() error { return s.stands(t.Context()) })
	s.phase("the declared rules go, with the same priorities")
	phases := s.end()
	for _, p := range phases[:len(phases)-1] {
		s.free(p)
	}
}

// TestAtOnce goes from BIRD to the mesh in one step on one node, without a
// netclassd on the others: adopt keeps the node's own packets, but the others have
// no net under their routes to it. It is why the guide has two rounds.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := tell(t, nil)
	one := s.nodes[0]
	s.orders(one,
		"cp /etc/netclassd/mesh.yaml /etc/netclassd/config.yaml",
		"netclassd adopt --protocol bird --table pods",
		"systemctl start netclassd")
	time.Sleep(settling)
	s.phase("netclassd started beside BIRD")
	s.must(one.bird.Stop())
	s.within("the mesh", func() error {
		if err := s.meshed(t.Context()); err != nil {
			return err
		}
		return s.stands(t.Context())
	})
	s.phase("BIRD stopped")
	phases := s.end()
	last := phases[len(phases)-1]
	for _, p := range phases[:len(phases)-1] {
		s.free(p)
	}
	if last.broken > 0 {
		t.Errorf("%d connections to the world broken", last.broken)
	}
	if last.router == 0 {
		t.Error("it costs nothing: the guide may say so, and need not have two rounds")
	}
	hop, err := one.FromPod(s.nodes[1].PodAddr(routing.IPv4))
	s.must(err)
	if hop.Link != lab.PodNet {
		t.Errorf("its pods reach k8s-2 by %s", hop)
	}
}
