package fibprobe

import (
	"fmt"
	"net/netip"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// Agree returns an error where the kernel's answer to a flow is not what the
// model says, as far as the kernel tells.
func Agree(f fib.Flow, mode fib.Mode, model fib.Result, kernel Answer) error {
	want := Seen(f, mode, model)
	got := kernel
	got.Src, got.Code = netip.Addr{}, ""
	if got.Action != fib.Forward {
		got = Answer{Action: got.Action}
	}
	if want.Table == 0 {
		got.Table = 0
	}
	if want.Metric == 0 {
		got.Metric = 0
	}
	if got != want {
		return fmt.Errorf("%s: the model says %+v, the kernel %+v", mode, want, kernel)
	}
	return nil
}

// Seen returns what the kernel can be heard to say when the model is right. Not
// all reasons are told apart:
//   - bpf_fib_lookup answers NOT_FWDED for every packet that it does not forward
//     by a route, so also for a local one and, but for two in IPv4, for one
//     rejected by a rule;
//   - a rule of type unreachable is ENETUNREACH, like no route at all;
//   - a next hop that is the destination itself is not told apart by
//     bpf_fib_lookup from none.
func Seen(f fib.Flow, mode fib.Mode, r fib.Result) Answer {
	v6 := routing.FamilyOf(f.Dst) == routing.IPv6
	byRule := r.Action != fib.NoRoute && !r.Route.Dst.IsValid()
	a := Answer{Action: r.Action}
	if byRule && (v6 && mode == fib.BPF || r.Action == fib.Unreachable) {
		a.Action = fib.NoRoute
	}
	if mode == fib.BPF && r.Action == fib.Local {
		a.Action = fib.NoRoute
	}
	if a.Action != fib.Forward {
		return Answer{Action: a.Action}
	}
	a.Link, a.Via = r.Route.Link, r.Route.Via
	if mode == fib.Stack {
		a.Table = r.Route.Table
		if v6 {
			a.Metric = r.Route.Metric
		}
		return a
	}
	a.Metric = r.Route.Metric
	if a.Via == f.Dst {
		a.Via = netip.Addr{}
	}
	return a
}
