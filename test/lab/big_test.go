package lab_test

import (
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestManyNodes makes a lab of the size that benches use.
func TestManyNodes(t *testing.T) {
	l := newLab(t, lab.Options{Nodes: 100, NoCounters: true})
	for _, f := range routing.Families {
		if r := ping(t, l.Node(1).Pod, l.Node(100).PodAddr(f), 2); r.Lost != 0 {
			t.Error(r)
		}
	}
}
