package main

import (
	"os"
	"runtime"
)

// frugal keeps the daemon on one processor at a time, unless GOMAXPROCS says
// otherwise. One goroutine does nearly all there is to do; with more processors
// each of its rare wakes would wake threads that look for work and find none.
func frugal() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
