// Package speaker starts, feeds and watches the speaker process, which runs BGP
// (package bgp). What it is told is declarative: the whole wanted state, kept
// here and given to each new process. The process may die at any time and is
// started again; what it said of its sessions is then no longer true, and what
// becomes of the routes is the engine's to decide.
package speaker
