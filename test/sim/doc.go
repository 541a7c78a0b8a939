// Package sim is a seeded simulation of one node's whole engine: the real
// planner and engine over a kernel, a speaker with its peers and an inventory
// that exist in memory only, in virtual time.
//
// A history is a random list of events, drawn from a seed: links flap, addresses
// come and go, peers die in every way, nodes are added and renumbered, other
// daemons delete and add, netlink fails, the daemon is killed between two
// messages. After every single change that the engine makes to the kernel the
// safety invariants are checked with the model of the kernel's lookup, for the
// stack and for eBPF, for both families. At the end the world is healed, and
// packets of every class must use their link.
//
// The invariants, by number:
//
//  1. Nothing to a guarded network goes by a less specific route, nothing to a
//     fenced network leaves an owned table by its default.
//  2. An owned table has a default only while its fence is complete.
//  3. What no rule selects is looked up as without us, the guard aside.
//  4. What is not ours is never changed.
//  5. A crash leaves 1 to 4 true; nothing is deleted before what says so has been
//     read, and a restart in a quiet world changes nothing.
//  6. A pass over unchanged inputs writes nothing and says nothing.
//  7. Stopping keeps everything, or takes it out in safe order.
//  8. The kernel becomes what the inputs say, in bounded time: class paths of
//     living peers and of no others, each class on its link.
//
// What the environment breaks by itself is a debt and no violation: no change of
// ours may add to it, the first change that knows of it must work it off, and
// after the next pass that goes through it must be gone.
package sim
