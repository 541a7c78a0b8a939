package bgp

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/osrg/gobgp/v3/pkg/log"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"github.com/osrg/gobgp/v3/pkg/server"

	"netclass.dev/routing"
)

// happening is something that GoBGP said of one neighbour, by its address.
type happening struct {
	addr string
	kind happeningKind
	from routing.SessionState // stateChanged
	to   routing.SessionState
	note notification // notified
	text string       // dialFailed
}

type happeningKind uint8

const (
	stateChanged happeningKind = iota
	updated                    // an UPDATE came: its Adj-RIB-In may have changed
	endOfRIB
	holdExpired
	notified
	dialFailed
)

// watcher learns from GoBGP's log what its event API keeps to itself: why a
// session ended, and that a peer's Adj-RIB-In has changed without turning every
// path of it into a message (which a crafted attribute crashes). Each line
// means "look again"; the words are those of v3.37.0, the last v3, and tests
// with real peers hold them.
//
// It is called on GoBGP's goroutines, some with its locks held: it never calls
// back.
type watcher struct {
	mu   sync.Mutex
	news []happening
	last map[string]happeningKind // the last kind queued, per address
	wake chan struct{}
	// restarting holds the neighbours whose next OPEN is to say that we have
	// restarted and kept forwarding (RFC 4724's R and F bits).
	restarting map[string]bool
	labels     map[string]context.Context // goroutine labels, see blame
	// onState is called for each change of state on GoBGP's serving goroutine,
	// with the neighbour's lock held.
	onState func(addr string, to routing.SessionState)
	// onSend is called there before a neighbour is sent everything anew.
	onSend func(addr string)
	// onUp is called there once GoBGP has noted that a session is up.
	onUp func(addr string)
	up   string // the neighbour whose session has come up; the serving goroutine's
}

// Observe makes it a server.FSMTimingHook: GoBGP calls it on its serving
// goroutine after each thing it has dealt with.
func (w *watcher) Observe(server.FSMOperation, time.Duration, time.Duration) {
	if w.up != "" && w.onUp != nil {
		w.onUp(w.up)
	}
	w.up = ""
}

func newWatcher() *watcher {
	return &watcher{
		last:       make(map[string]happeningKind),
		restarting: make(map[string]bool),
		labels:     make(map[string]context.Context),
		wake:       make(chan struct{}, 1),
	}
}

// setRestarting says whether the neighbour's next OPEN carries the restart bits.
func (w *watcher) setRestarting(addr string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.restarting[addr] = true
	} else {
		delete(w.restarting, addr)
	}
}

func (w *watcher) isRestarting(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.restarting[addr]
}

// take returns what happened since it was last called.
func (w *watcher) take() []happening {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := w.news
	w.news = nil
	clear(w.last)
	return news
}

func (w *watcher) put(h happening) {
	w.mu.Lock()
	// A flood of updates is one look.
	if last, ok := w.last[h.addr]; !ok || last != h.kind || h.kind != updated {
		w.news = append(w.news, h)
		w.last[h.addr] = h.kind
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

var states = map[string]routing.SessionState{
	"BGP_FSM_IDLE": routing.Idle, "BGP_FSM_CONNECT": routing.Connect, "BGP_FSM_ACTIVE": routing.Active,
	"BGP_FSM_OPENSENT": routing.OpenSent, "BGP_FSM_OPENCONFIRM": routing.OpenConfirm, "BGP_FSM_ESTABLISHED": routing.Established,
}

func (w *watcher) hear(msg string, f log.Fields) {
	addr, _ := f["Key"].(string)
	switch msg {
	case "state changed", "Add a peer configuration", "received update":
		w.blame(addr)
	}
	switch msg {
	case "state changed":
		from, _ := f["old"].(string)
		to, _ := f["new"].(string)
		if w.onState != nil {
			w.onState(addr, states[to])
		}
		if states[to] == routing.Established {
			w.up = addr
		}
		w.put(happening{addr: addr, kind: stateChanged, from: states[from], to: states[to]})
	case "Neighbor soft reset out":
		if w.onSend != nil {
			w.onSend(addr)
		}
	case "received update":
		w.put(happening{addr: addr, kind: updated})
	case "EOR received":
		w.put(happening{addr: addr, kind: endOfRIB})
	case "hold timer expired":
		w.put(happening{addr: addr, kind: holdExpired})
	case "received notification", "sent notification":
		w.put(happening{addr: addr, kind: notified, note: noteFrom(f, msg == "sent notification")})
	case "failed to connect":
		w.put(happening{addr: addr, kind: dialFailed, text: fmt.Sprint(f["Error"])})
	}
}

// PeerLabel is the goroutine label that names the neighbour a goroutine of
// GoBGP works for, by its address. It shows in the trace of a panic.
const PeerLabel = "peer"

// blame labels the serving goroutine with the neighbour that it turns to. Those
// that it starts for the neighbour inherit the label: so when a peer's message
// makes GoBGP panic, the daemon reads whose it was.
func (w *watcher) blame(addr string) {
	w.mu.Lock()
	ctx, ok := w.labels[addr]
	if !ok {
		ctx = pprof.WithLabels(context.Background(), pprof.Labels(PeerLabel, addr))
		w.labels[addr] = ctx
	}
	w.mu.Unlock()
	pprof.SetGoroutineLabels(ctx)
}

// noteFrom reads a NOTIFICATION from a log line of either form.
func noteFrom(f log.Fields, sent bool) notification {
	if e, ok := f["Data"].(*bgp.MessageError); ok {
		return notification{code: e.TypeCode, subcode: e.SubTypeCode, sent: sent, text: e.Message}
	}
	n := notification{sent: sent}
	n.code, _ = f["Code"].(uint8)
	n.subcode, _ = f["Subcode"].(uint8)
	n.text, _ = f["Communicated-Reason"].(string)
	return n
}

// The rest makes it a log.Logger of GoBGP. Its level is Debug, or GoBGP would
// not say when an UPDATE comes; what is only for debugging is not printed.

func (w *watcher) Panic(msg string, f log.Fields) { w.die("panic", msg, f) }
func (w *watcher) Fatal(msg string, f log.Fields) { w.die("fatal", msg, f) }

// die ends the process, as GoBGP's own logger does.
func (w *watcher) die(level, msg string, f log.Fields) {
	say("WARN", level+": "+msg, f)
	os.Exit(2)
}

func (w *watcher) Error(msg string, f log.Fields) { w.hear(msg, f); say("WARN", msg, f) }
func (w *watcher) Warn(msg string, f log.Fields)  { w.hear(msg, f); say("DEBUG", msg, f) }
func (w *watcher) Info(msg string, f log.Fields)  { w.hear(msg, f); say("DEBUG", msg, f) }
func (w *watcher) Debug(msg string, f log.Fields) { w.hear(msg, f) }
func (w *watcher) SetLevel(log.LogLevel)          {}
func (w *watcher) GetLevel() log.LogLevel         { return log.DebugLevel }

// say writes a line for the daemon's log. Only fields that are known to hold no
// secret and no more than a line are printed.
func say(level, msg string, f log.Fields) {
	line := level + " " + msg
	for _, key := range []string{"Key", "State", "Code", "Subcode", "Reason", "Error", "Err", "Configured addr", "Addr", "Remote Addr"} {
		if v, ok := f[key]; ok {
			line += fmt.Sprintf(" %s=%q", key, fmt.Sprint(v))
		}
	}
	fmt.Fprintln(os.Stderr, line)
}
