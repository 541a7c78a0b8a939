package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// WatchDrain looks on, from another node and on the node itself, at a drain that is about
// to begin. What it returns ends that and says what was wrong: nothing may be shown as
// drained before the node says that it is, and the other is to see that it is on its way.
func WatchDrain(ctx context.Context, other, self *Netclassd) func() error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var wrong error
		seen := map[string]bool{}
		for ctx.Err() == nil {
			// Who is said to be drained is so later, too.
			there, err := other.Ctl(ctx, "nodes", self.Node.Name)
			if err != nil {
				continue
			}
			own, err := self.Ctl(ctx, "status")
			if err != nil {
				continue
			}
			word, phase, health := field(there, "Drain"), field(own, "Drain"), field(own, "Health")
			seen[word] = true
			if phase != "Drained" && (word == "Drained" || health == "Drained") && wrong == nil {
				wrong = fmt.Errorf("while %s is %q, it is shown as drained:\n%s\n%s", self.Node.Name, phase, there, own)
			}
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
		if !seen["Draining"] {
			wrong = errors.Join(wrong, fmt.Errorf("%s has not seen that %s drains, only %v", other.Node.Name, self.Node.Name, seen))
		}
		done <- wrong
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// field returns the first word that netclassctl prints beside a name.
func field(out, name string) string {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1]
		}
	}
	return ""
}
