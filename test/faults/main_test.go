package faults

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// score counts over the whole suite what was done to the daemons and what came
// of it.
var score struct {
	mu                           sync.Mutex
	injected, broken, sent, lost int
}

func TestMain(m *testing.M) {
	code := m.Run()
	if score.injected > 0 {
		fmt.Printf("faults: %d injected, %d invariants broken, %d packets lost of %d\n", score.injected, score.broken, score.lost, score.sent)
	}
	os.Exit(code)
}

// inject counts faults, under the name that the log shows.
func (c *cluster) inject(n int, what string) {
	c.t.Helper()
	c.t.Logf("fault: %s", what)
	score.mu.Lock()
	defer score.mu.Unlock()
	score.injected += n
}

// broken fails the test over an invariant.
func (c *cluster) broken(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("invariant broken: "+format, args...)
	score.mu.Lock()
	defer score.mu.Unlock()
	score.broken++
}
