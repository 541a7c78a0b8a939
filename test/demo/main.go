// Command demo shows what netclass does on a small cluster of its own: three
// nodes, a switch with a VLAN for each class, an upstream router and the world,
// all of them network namespaces on this machine that are gone when it ends.
//
// It exits with 1 when a promise was broken and with 130 after Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	withBIRD := flag.Bool("with-bird", false, "afterwards, put the set-up made by hand (BIRD and rules) through the same faults")
	onlyBIRD := flag.Bool("only-bird", false, "put only the set-up made by hand through the faults")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, *withBIRD, *onlyBIRD)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, withBIRD, onlyBIRD bool) int {
	s := &story{out: os.Stdout, faultsOnly: onlyBIRD}
	var results []result
	err := func() error {
		if !onlyBIRD {
			r, err := s.tell(ctx, &netclass{})
			if err != nil {
				return err
			}
			results = append(results, r)
		}
		if withBIRD || onlyBIRD {
			s.faultsOnly = true
			r, err := s.tell(ctx, &byHand{})
			if err != nil {
				return err
			}
			results = append(results, r)
		}
		return nil
	}()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		s.println("\nInterrupted. Everything has been cleaned up.")
		return 130
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	s.summary(results)
	if len(s.broken) > 0 {
		return 1
	}
	return 0
}
