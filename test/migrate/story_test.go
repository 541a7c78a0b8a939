package migrate

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

var update = flag.Bool("update", false, "put what the commands print into the guide")

// settling is how long after a change the output that goes into the guide is
// taken.
const settling = 5 * time.Second

// story goes through the guide's steps.
type story struct {
	*traffic
	steps   map[string]block
	printed map[string][]command // on k8s-1, the first time
}

// tell reads the guide and starts the traffic.
func tell(t *testing.T) *story {
	t.Helper()
	s := &story{steps: map[string]block{}, printed: map[string][]command{}}
	for _, b := range readGuide(t) {
		if b.step == "" {
			continue
		}
		if _, twice := s.steps[b.step]; twice {
			t.Fatalf("%s:%d: step %s is there twice", guideFile, b.line, b.step)
		}
		s.steps[b.step] = b
	}
	s.traffic = byHand(t).traffic()
	time.Sleep(time.Second)
	s.phase("before anything")
	return s
}

// do does a step on a node, and waits until the whole cluster stands again.
func (s *story) do(step string, n *node) {
	s.t.Helper()
	s.commands(step, n)
	s.within(fmt.Sprintf("%s on %s", step, n.Name), func() error {
		if err := s.meshed(s.t.Context()); err != nil {
			return err
		}
		return s.stands(s.t.Context())
	})
	s.phase(step + " " + n.Name)
}

// everywhere does a step on each node, one after the other.
func (s *story) everywhere(step string) {
	s.t.Helper()
	for _, n := range s.nodes {
		s.do(step, n)
	}
}

// rest waits until whatever a step has set off later has come: the peers' restart
// time, and BIRD's look at the kernel, take 10 s.
func (s *story) rest(where string) {
	s.t.Helper()
	time.Sleep(12 * time.Second)
	s.must(s.stands(s.t.Context()))
	s.phase("12 s " + where)
}

// commands runs a step's commands. The first time, on k8s-1, they must print what
// the guide says; later what they print depends on how far the others are.
func (s *story) commands(step string, n *node) {
	s.t.Helper()
	b, ok := s.steps[step]
	if !ok {
		s.t.Fatalf("%s has no step %s", guideFile, step)
	}
	first := n == s.nodes[0] && s.printed[step] == nil
	acted := false
	for _, c := range b.commands {
		look := looks.MatchString(c.line)
		switch {
		case first && *update:
			if look && acted {
				time.Sleep(settling)
			}
			out, err := n.run(s.t.Context(), c.line)
			if !ended(err) {
				s.t.Fatal(err)
			}
			c.output = out
			s.printed[step] = append(s.printed[step], c)
		case first && look:
			s.printed[step] = append(s.printed[step], c)
			s.check(step, n.shows(s.t.Context(), c))
		case look:
			s.check(step, n.succeeds(s.t.Context(), c.line))
		default:
			out, err := n.run(s.t.Context(), c.line)
			s.check(step, err)
			if first {
				s.printed[step] = append(s.printed[step], c)
				if got, want := alike(out), alike(c.output); got != want {
					s.t.Errorf("%s:%d: step %s: $ %s\n%s\nthe guide says\n%s", guideFile, b.line, step, c.line, got, want)
				}
			}
		}
		acted = !look
	}
}

func (s *story) check(step string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s:%d: step %s: %v", guideFile, s.steps[step].line, step, err)
	}
}

// end stops the traffic, and puts what was printed into the guide if it was
// asked for.
func (s *story) end() []phase {
	s.t.Helper()
	phases := s.stop()
	if *update && !s.t.Failed() {
		rewriteGuide(s.t, s.printed)
	}
	return phases
}

// TestGuide follows the guide on all three nodes, to netclassd and back to BIRD. No
// step may cost a packet between pods, a cluster packet at the router or a
// masqueraded connection; each is undone once on the way.
func TestGuide(t *testing.T) {
	s := tell(t)
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

// TestLeftovers has BIRD killed on a node, so that its routes stay, and cleans up
// as the guide says. Then it takes netclassd away too, with no BIRD beneath: pods are
// unseparated, and what is masqueraded moves to another link.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := tell(t)
	one := s.nodes[0]
	for _, n := range s.nodes {
		s.commands("configuration", n)
		s.do("beside", n)
	}
	s.must(one.bird.Kill())
	for _, line := range []string{"cp /etc/netclassd/mesh.yaml /etc/netclassd/config.yaml", "netclassctl reload"} {
		_, err := one.run(t.Context(), line)
		s.must(err)
	}
	s.within("the mesh", func() error { return s.meshed(t.Context()) })
	s.do("leftovers", one)
	for _, line := range []string{"systemctl stop netclassd", "netclassd flush"} {
		_, err := one.run(t.Context(), line)
		s.must(err)
	}
	time.Sleep(time.Second)
	s.phase("flushed, without BIRD")
	phases := s.end()
	last := len(phases) - 1
	for _, p := range phases[:last] {
		s.free(p)
	}
	if p := phases[last]; p.lost > 0 || p.router > 0 || p.broken != len(routing.Families) {
		t.Errorf("%s: %d pings lost, %d cluster packets at the router, %d connections to the world broken: the guide says the last only, and all of that node", p.name, p.lost, p.router, p.broken)
	}
}

// TestDeclaredRulesGo takes the declared rules away as Talos before 1.13.1 does,
// and everybody's of the same family and priority with them. With priorities of
// our own, as the guide asks for there, that costs nothing.
func TestDeclaredRulesGo(t *testing.T) {
	t.Parallel()
	s := tell(t)
	one := s.nodes[0]
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
	for _, line := range []string{"cp /etc/netclassd/beside.yaml /etc/netclassd/config.yaml", "netclassctl reload"} {
		_, err := one.run(t.Context(), line)
		s.must(err)
	}
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
	s := tell(t)
	one := s.nodes[0]
	for _, line := range []string{
		"cp /etc/netclassd/mesh.yaml /etc/netclassd/config.yaml",
		"netclassd adopt --protocol bird --table pods",
		"systemctl start netclassd",
	} {
		_, err := one.run(t.Context(), line)
		s.must(err)
	}
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
