package inventory

import (
	"runtime/debug"
	"time"
)

// Reading many nodes at once, and planning with them, leaves behind several times
// the memory that they take, which would stay for minutes: the nodes of a large
// cluster are read anew whenever a watch has been away for too long.
const (
	many      = 500
	trimAfter = 3 * time.Second
)

// freeMemory gives back what is free. Tests replace it.
var freeMemory = debug.FreeOSMemory

// trim gives memory back to the system soon, if what has been read is much.
func trim(objects int) {
	if objects > many {
		time.AfterFunc(trimAfter, func() { freeMemory() })
	}
}
