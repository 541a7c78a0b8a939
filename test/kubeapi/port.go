package kubeapi

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports below those that the kernel gives to whoever asks for any (from 32768 on) and
// below those of Services (from 30000 on): nobody takes one by chance.
const (
	firstPort = 20000
	ports     = 10000
)

// freePort returns a port of the loopback that nobody listens on, and that no other
// test is given until this one ends: its server may stop and start again.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := firstPort + rand.IntN(ports)
		// Tests are several processes, which see each other's names of this kind.
		claim, err := net.Listen("unix", fmt.Sprintf("@netclass-test-port-%d", port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = claim.Close() })
		return port
	}
	t.Fatal("no port of the loopback is free")
	return 0
}
