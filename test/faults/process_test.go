package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestStateDirectory runs the daemon where nothing can be saved: it works, and
// says so.
func TestStateDirectory(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	for _, step := range []struct{ what, mount, text string }{
		{"the state directory is read-only", `mount -t tmpfs -o ro none "$1"`, "read-only file system"},
		{"the disk is full", `mount -t tmpfs -o size=4k none "$1"; head -c 8192 /dev/zero >"$1/fill" 2>/dev/null`, "no space left"},
	} {
		c.inject(1, step.what)
		c.pings(func() {
			c.must(c.d.Stop())
			// In a mount namespace of its own.
			p, err := c.one.Start(lab.Command{Path: "unshare", Name: "netclassd", Dir: c.d.Dir, Args: []string{
				"-m", "sh", "-c", step.mount + `; shift; exec "$@"`, "sh", c.d.StateDir,
				lab.Built("netclassd"), "--config", c.d.ConfigFile, "--node", c.one.Name, "--socket", c.d.Socket, "--state-dir", c.d.StateDir,
			}})
			c.must(err)
			c.d.Process = p
			c.within(5*time.Second, "an answer", func() error { _, err := c.status(); return err })
			c.condition(5*time.Second, "state", "NotSaved", step.text)
			c.converge()
			c.ip("-4 rule del priority 1001")
			c.restored(repair, step.what, want)
		})
	}
	c.must(c.d.Restart())
	c.within(5*time.Second, "health", func() error {
		s, err := c.status()
		for _, x := range s.GetConditions() {
			if x.Object == "state" {
				err = fmt.Errorf("still %v", x)
			}
		}
		return err
	})
}

// TestFileDescriptors gives the daemon few, and callers that take what they can
// get.
func TestFileDescriptors(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	const files = 64
	c.must(c.d.Stop())
	p, err := c.one.Start(lab.Command{Path: "sh", Name: "netclassd", Dir: c.d.Dir, Args: []string{
		"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh",
		lab.Built("netclassd"), "--config", c.d.ConfigFile, "--node", c.one.Name, "--socket", c.d.Socket, "--state-dir", c.d.StateDir,
	}})
	c.must(err)
	c.d.Process = p
	c.within(5*time.Second, "an answer", func() error { _, err := c.status(); return err })
	c.converge()
	c.inject(1, "few file descriptors, and many callers")
	c.pings(func() {
		var conns []net.Conn
		for range 3 * files {
			conn, err := net.Dial("unix", c.d.Socket)
			if err != nil {
				break // the backlog is full
			}
			_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
			conns = append(conns, conn)
		}
		t.Logf("%d connections", len(conns))
		c.ip("-4 rule del priority 1001", "-6 route del fd00:10:244:2::/64 table 47 metric 10")
		c.restored(repair, "what was deleted, with every connection taken", want)
		c.must(c.d.KillSpeaker())
		time.Sleep(500 * time.Millisecond)
		if _, err := c.d.Speaker(); err != nil {
			c.broken("the speaker does not come back: %v", err)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		c.within(5*time.Second, "an answer", func() error { _, err := c.status(); return err })
		c.converge()
	})
	c.unchanged("few file descriptors", want)

	c.inject(1, "few file descriptors, and many connections to the BGP port")
	c.pings(func() {
		var conns []net.Conn
		for range 3 * files {
			_ = c.Node(2).Do(func() error {
				conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(c.one.Addr(lab.PodNet, routing.IPv4), 179).String(), 50*time.Millisecond)
				if err == nil {
					conns = append(conns, conn)
				}
				return err
			})
		}
		pid, err := c.d.Speaker()
		c.must(err)
		before := c.processorTime(pid)
		time.Sleep(time.Second)
		if used := c.processorTime(pid) - before; used > 300*time.Millisecond {
			c.broken("the speaker uses %v of a second", used)
		}
		t.Logf("%d connections", len(conns))
		for _, conn := range conns {
			_ = conn.Close()
		}
		c.converge()
	})
	c.unchanged("many connections to the BGP port", want)
}

// processorTime returns what a process has used so far.
func (c *cluster) processorTime(pid int) time.Duration {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	c.must(err)
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(f)
		c.must(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestSpeakerCrashLoop kills the speaker again and again: it is restarted, soon
// with pauses, that is said, and the tables stay as they are.
func TestSpeakerCrashLoop(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	const kills = 11
	c.inject(kills, "the speaker crashes again and again")
	c.pings(func() {
		for n := range kills {
			c.within(10*time.Second, "a speaker", c.d.KillSpeaker)
			c.within(10*time.Second, "its end", func() error {
				s, err := c.status()
				if err == nil && int(s.Speaker.Restarts) <= n {
					err = errors.New("it has not been noticed")
				}
				return err
			})
			time.Sleep(50 * time.Millisecond)
		}
		c.condition(repair, "speaker", "NotRunning", "killed")
		c.unchanged("a dead speaker", want)
		c.converge()
	})
	c.unchanged("a speaker that crashes again and again", want)
	s, err := c.status()
	c.must(err)
	if s.Speaker.Restarts < kills {
		t.Errorf("%d restarts", s.Speaker.Restarts)
	}
}

// TestGarbage talks nonsense to the socket.
func TestGarbage(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	garbage := []string{
		"\x00", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 1<<20), strings.Repeat("\x00", 1<<20), preface, preface[:10],
		preface + "\xff\xff\xff\x00\x00\x00\x00\x00\x01" + strings.Repeat("x", 1<<16), // a frame beyond every limit
		preface + strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x00pingping", 10_000),
		preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + strings.Repeat("\x00\x00\x05\x01\x04\x00\x00\x00\x01\x82\x86\x84\x41\xff", 100),
	}
	c.inject(len(garbage), "garbage on the socket")
	before, err := c.d.PSS()
	c.must(err)
	c.pings(func() {
		for _, g := range garbage {
			for range 5 {
				conn, err := net.Dial("unix", c.d.Socket)
				c.must(err)
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				_, _ = conn.Write([]byte(g))
				if len(g) < 100 {
					defer func() { _ = conn.Close() }() // and hangs on
				} else {
					_ = conn.Close()
				}
			}
			if _, err := c.status(); err != nil {
				c.broken("after %d bytes of garbage: %v", len(g), err)
			}
		}
	})
	c.unchanged("garbage", want)
	after, err := c.d.PSS()
	c.must(err)
	t.Logf("daemon and speaker: %d MB before, %d MB after", before>>20, after>>20)
	if after > before+32<<20 {
		c.broken("%d MB after garbage, %d MB before", after>>20, before>>20)
	}
}

// TestSlowWatchers has 200 clients watch that never read, while much changes.
func TestSlowWatchers(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	const clients = 200
	c.inject(1, "200 clients that watch and do not read")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before, err := c.d.PSS()
	c.must(err)
	var open atomic.Int32
	for range clients {
		conn, err := grpc.NewClient("unix:"+c.d.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
		c.must(err)
		defer func() { _ = conn.Close() }()
		stream, err := pb.NewNetClassServiceClient(conn).Watch(ctx, &pb.WatchRequest{})
		c.must(err)
		if _, err := stream.Header(); err == nil {
			open.Add(1)
		}
	}
	if n := open.Load(); n != clients {
		t.Fatalf("%d of %d clients watch", n, clients)
	}
	connected, err := c.d.PSS()
	c.must(err)
	var half uint64
	cluster := c.NodesFile()
	c.pings(func() {
		for i := range 40 {
			if i == 20 {
				half, err = c.d.PSS()
				c.must(err)
			}
			if i&1 == 0 { // many objects come and go
				var b strings.Builder
				for n := range 500 {
					fmt.Fprintf(&b, "  - name: x-%d-%d\n    podCIDRs: [\"10.244.%d.%d/32\"]\n    annotations: {net.renner.uno/pod0-v4: nonsense}\n", i, n, 128+n>>8, n&255)
				}
				c.must(c.d.WriteNodes(cluster + b.String()))
			} else {
				c.must(c.d.WriteNodes(cluster))
			}
			time.Sleep(100 * time.Millisecond)
		}
		c.must(c.d.WriteNodes(cluster))
		c.restored(5*time.Second, "the nodes", want)
		c.ip("-4 rule del priority 1001")
		took := c.restored(time.Second, "a deleted rule, under 200 watchers", want)
		t.Logf("a rule is back after %v", took.Round(time.Millisecond))
	})
	after, err := c.d.PSS()
	c.must(err)
	s, err := c.status()
	c.must(err)
	t.Logf("daemon and speaker: %d MB before, %d MB with %d watchers, %d MB halfway, %d MB at the end; a pass takes %v",
		before>>20, connected>>20, clients, half>>20, after>>20, s.Pass.Took.AsDuration())
	// Bounded: more changes cost no more.
	if after > connected+128<<20 || after > half+half/4 {
		c.broken("%d MB with 200 watchers that miss changes, %d MB halfway, %d MB before", after>>20, half>>20, connected>>20)
	}
	if took := s.Pass.Took.AsDuration(); took > 100*time.Millisecond {
		c.broken("a pass takes %v", took)
	}
}
