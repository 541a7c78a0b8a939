package migrate

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "put what the commands print into the guide")

// settling is how long after a change the output that goes into the guide is
// taken.
const settling = 5 * time.Second

// story goes through the guide's steps.
type story struct {
	*traffic
	steps   map[string]block
	own     []string             // steps that must print what the guide says
	printed map[string][]command // of them on k8s-1, the first time
	talos   bool                 // each change of the configuration is a stop and a start
}

// tell reads the guide and starts the traffic. The test that names a step as its own
// holds its output to the guide, and puts it there with -update.
func tell(t *testing.T, own []string) *story {
	t.Helper()
	s := read(t, own)
	s.traffic = byHand(t).traffic()
	time.Sleep(time.Second)
	s.phase("before anything")
	return s
}

// read is tell without a cluster yet.
func read(t *testing.T, own []string) *story {
	t.Helper()
	s := &story{own: own, steps: map[string]block{}, printed: map[string][]command{}}
	for _, b := range readGuide(t) {
		if b.step == "" {
			continue
		}
		if _, twice := s.steps[b.step]; twice {
			t.Fatalf("%s:%d: step %s is there twice", guideFile, b.line, b.step)
		}
		s.steps[b.step] = b
	}
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

// commands runs a step's commands. The first time, on k8s-1, those of a step of its
// own must print what the guide says; later what they print depends on how far the
// others are.
func (s *story) commands(step string, n *node) {
	s.t.Helper()
	b, ok := s.steps[step]
	if !ok {
		s.t.Fatalf("%s has no step %s", guideFile, step)
	}
	first := n == s.nodes[0] && s.printed[step] == nil && slices.Contains(s.own, step)
	acted := false
	for _, c := range b.commands {
		look := looks.MatchString(c.line)
		switch {
		case s.talos && c.line == "netclassctl reload":
			s.must(n.startedAnew())
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
