package sim

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// use is called where the daemon begins a pass with a configuration.
func (w *world) use(c *routing.Config) string {
	if c != w.inForce {
		w.inForce, w.sight = c, nil
		for _, t := range c.Tables {
			if t.Fence != nil {
				w.owned[t.ID] = t.Fence
			}
		}
	}
	return self
}

// node is asked for the node's name with the configuration of each pass.
func (h *hand) node(c *routing.Config) string {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if !h.dead {
		return h.w.use(c)
	}
	return self
}

// start starts a daemon.
func (w *world) start() {
	w.hand = &hand{w: w}
	w.hand.newPass()
	w.speaker = &speaker{w: w, sessions: map[routing.SessionKey]*session{}}
	h := w.hand
	w.recall()
	w.engine = engine.New(engine.Options{
		Kernel: w.hand, Speaker: w.speaker, Inventory: h.inventory,
		Node:     h.node,
		StateDir: w.dir, Version: "sim", Log: slog.New(slog.DiscardHandler),
	})
	w.engine.Configure(w.config, routing.ConfigStatus{Path: "config.yaml"}, nil)
	w.order()
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done, w.crashed = stop, make(chan struct{}), false
	w.since, w.watched = 0, false
	e, done := w.engine, w.done
	go func() { defer close(done); e.Run(ctx) }()
}

// recall brings what is known of the class links' networks to what the state
// directory says, which is all that the next daemon knows of them.
func (w *world) recall() {
	w.memory = map[string][]netip.Prefix{}
	var saved struct {
		Links map[string][]netip.Prefix `json:"links"`
	}
	if text, err := os.ReadFile(w.ledgerFile()); err == nil {
		w.must(json.Unmarshal(text, &saved))
	}
	for _, link := range w.gatewayless() {
		if known := saved.Links[link]; len(known) > 0 {
			w.memory[link] = known
		}
	}
	w.sight = nil
}

// die ends the daemon between two instructions: nothing it does from now on has
// an effect. The world must be locked.
func (w *world) die() {
	w.hand.dead = true
	w.speaker.end()
	w.crashed = true
	w.stop()
}

// bury waits for what is left of a dead daemon and puts its state directory back
// to what it was when it died.
func (w *world) bury() {
	saved, err := os.ReadFile(w.ledgerFile())
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	if err == nil {
		w.must(os.WriteFile(w.ledgerFile(), saved, 0o600))
	} else {
		_ = os.Remove(w.ledgerFile())
	}
}

func (w *world) ledgerFile() string { return filepath.Join(w.dir, "ledger.json") }

// inventory is what a daemon reads at the start of each pass.
func (h *hand) inventory() *routing.Inventory {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.newPass()
	inv := h.w.listed
	inv.Nodes = slices.Clone(inv.Nodes)
	h.synced = inv.Synced
	h.seen = h.seen || inv.Node(self) != nil
	return &inv
}
