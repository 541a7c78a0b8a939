package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// Limits of what may be asked of a drain.
const (
	maxDrainReason  = 256
	maxDrainClasses = 32 // as many as the drain lease carries
	maxGrace        = time.Hour
	minWait         = time.Second
	maxWait         = 24 * time.Hour
)

// Names as configurations and clusters have them.
var (
	nodeName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	className = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// drainRequest reads what is asked for, or says what of it cannot be.
func (s *Server) drainRequest(ctx context.Context, req *pb.DrainNodeRequest) (routing.DrainRequest, error) {
	v := s.view()
	ask, err := v.request(ctx, req.GetNode())
	if err != nil {
		return ask, err
	}
	if ask.Reason = req.GetReason(); len(ask.Reason) > maxDrainReason || strings.ContainsFunc(ask.Reason, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ask, badField("reason", "must be at most %d bytes of text in one line", maxDrainReason)
	}
	if ask.Grace, err = span("grace", req.GetGrace(), 0, maxGrace); err != nil {
		return ask, err
	}
	if ask.Wait, err = span("wait", req.GetWait(), minWait, maxWait); err != nil {
		return ask, err
	}
	if ask.Grace != nil && ask.Wait != nil && *ask.Grace >= *ask.Wait {
		return ask, badField("wait", "must be longer than the grace time, %v", *ask.Grace)
	}
	ask.Force, ask.Holder, ask.KeepEgress = req.GetForce(), req.GetHolder(), req.GetKeepEgress()
	switch {
	case ask.Holder != "" && !ask.Force:
		return ask, badField("holder", "goes with force only: the lock is taken from it")
	case ask.Holder != "" && !nodeName.MatchString(ask.Holder):
		return ask, badField("holder", "is not the name of a node")
	}
	ask.Classes, err = v.drainClasses(ask.Node, req.GetClasses())
	return ask, err
}

// undrainRequest does the same for an undrain.
func (s *Server) undrainRequest(ctx context.Context, req *pb.UndrainNodeRequest) (routing.DrainRequest, error) {
	ask, err := s.view().request(ctx, req.GetNode())
	ask.Undrain = true
	return ask, err
}

// request begins a request about a node, this one if it is not named.
func (v *view) request(ctx context.Context, node string) (routing.DrainRequest, error) {
	if node == "" {
		node = v.Node
	} else if !nodeName.MatchString(node) {
		return routing.DrainRequest{}, badField("node", "is not the name of a node")
	}
	// A node that is gone may still be known as drained. Where the nodes have not
	// been read yet, nobody can say that there is none.
	if node != v.Node && v.Inventory.Known() && v.Inventory.Node(node) == nil && !v.drained[node] {
		return routing.DrainRequest{}, notFound("node", node)
	}
	who, _ := callerFrom(ctx) // every call has one: see guarded
	ask := routing.DrainRequest{ID: drainID(), Node: node, By: who.describe(), At: time.Now()}
	if node != v.Node {
		ask.By += " on " + v.Node
	}
	return ask, nil
}

// drainID makes an identifier that no other drain has.
func drainID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // which never fails
	return hex.EncodeToString(b)
}

// drainClasses checks names of classes. What another node's configuration has is
// for that node to say.
func (v *view) drainClasses(node string, names []string) ([]string, error) {
	if len(names) > maxDrainClasses {
		return nil, badField("classes", "must be at most %d", maxDrainClasses)
	}
	for _, name := range names {
		if !className.MatchString(name) {
			return nil, badField("classes", "%q is not the name of a class", clip(name, 100))
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if node != v.Node {
		return names, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(v.config.Classes, func(c routing.Class) bool { return c.Name == name }) {
			return nil, notFound("class", name)
		}
	}
	if _, none := v.config.DrainLinks(names); len(none) > 0 {
		return nil, badField("classes", "there is nothing of %s that a drain could take out", strings.Join(none, ", "))
	}
	return names, nil
}

// span reads a duration; nil where none is given.
func span(field string, d *durationpb.Duration, least, most time.Duration) (*time.Duration, error) {
	if d == nil {
		return nil, nil
	}
	if v := d.AsDuration(); d.CheckValid() == nil && v >= least && v <= most {
		return &v, nil
	}
	return nil, badField(field, "must be from %v to %v", least, most)
}

// describe says for people who it is: "uid 0 (netclassctl, pid 812)".
func (c caller) describe() string {
	if c.pid <= 0 { // of another PID namespace
		return fmt.Sprintf("uid %d", c.uid)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.pid))
	if err != nil || len(name) == 0 {
		return fmt.Sprintf("uid %d (pid %d)", c.uid, c.pid)
	}
	// A process names itself.
	shown := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text(strings.TrimSuffix(string(name), "\n")))
	return fmt.Sprintf("uid %d (%s, pid %d)", c.uid, shown, c.pid)
}
