package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/alarm"
	"netclass.dev/routing/drain"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/health"
	"netclass.dev/routing/intent"
	"netclass.dev/routing/kernel"
	"netclass.dev/routing/speaker"
	"netclass.dev/server"
	"netclass.dev/version"
)

// run is the daemon: it wires the rooms together and lives until a signal.
func run(f flags) error {
	frugal()
	// From here on no SIGHUP kills us, and one that is followed by SIGTERM is
	// heeded first: what it loads may say how to end.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	f.config = absolute(f.config)
	d := &daemon{flags: f, ctx: ctx}
	d.seen.take(f.config)
	d.seen.inForce = text(f.config)
	config, warnings, err := load(f.config)
	if err != nil {
		if problems, ok := errors.AsType[intent.Problems](err); ok {
			return exitError{fmt.Errorf("configuration %s is not usable:\n%w", f.config, problems), exitConfig}
		}
		return err
	}
	log := newLog(os.Stderr, config.Log)
	defer log.flush()

	if err := kernel.MayRoute(); err != nil {
		return err
	}
	// Given back last: a daemon that is started meanwhile waits for it.
	claim, err := kernel.Claim(ctx, log.Logger)
	if err != nil {
		return err
	}
	defer claim.Close()
	listener, err := server.Listen(f.socket, config.API.Readers)
	if err != nil {
		return err
	}
	k, err := kernel.Open(kernel.Config{Log: log.Logger})
	if err != nil {
		listener.Close()
		return err
	}
	defer k.Close()
	if err := stranded(ctx, k, f, config); err != nil {
		listener.Close()
		return err
	}

	d.log = log
	d.health = health.New(func() { d.engine.Look() })
	defer d.health.Close()
	d.notifier.init(log.Logger, d.State)
	sp := speaker.New(speaker.Config{Notify: func() { d.engine.Look() }, Log: log.Logger})
	clock, err := alarm.New(func() { d.engine.Look() })
	if err != nil {
		listener.Close()
		return err
	}
	defer clock.Close()
	d.engine = engine.New(engine.Options{
		Kernel: k, Speaker: sp, Oracle: k, Inventory: d.inventory, Node: f.nodeName,
		StateDir: f.stateDir, Version: version.String(), Log: log.Logger, Meddler: k.Meddler,
		Passed: d.notifier.passed, Unready: d.health.Unready, Unanswered: k.Unanswered,
		Alarm: func(wait time.Duration) {
			if err := clock.In(wait); err != nil {
				log.Error("alarm not set", "error", err)
				time.AfterFunc(wait, d.engine.Look)
			}
		},
	})
	log.Info("started", "version", version.String(), "node", f.nodeName(config), "config", f.config)
	d.warn(warnings)
	d.use(config)
	defer d.unfollow()
	if config.Idle() {
		log.Info("idle until there is a configuration", "config", f.config, "reason", why(f.config))
	}

	d.drainer = d.newDrainer(k)
	var tasks sync.WaitGroup
	tasks.Go(func() { d.engine.Run(ctx) })
	tasks.Go(func() { d.drainer.Run(ctx) })
	tasks.Go(func() { d.reloadOn(hangups) })
	tasks.Go(func() { giveBack(ctx, d.engine) })
	if config.Idle() {
		tasks.Go(d.waitForConfig)
	}
	served := server.New(server.Config{Source: d, Drains: d, Unloaded: d.Unloaded, Log: log.Logger, Readers: config.API.Readers, Admins: config.API.Admins}).Serve(ctx, listener)
	if ctx.Err() == nil {
		// Without its socket nobody can see or change the daemon; it is better
		// started anew. The kernel is kept as it is meanwhile.
		stop()
		tasks.Wait()
		return errors.Join(fmt.Errorf("serve: %w", served), d.engine.Stop(routing.ExitKeep))
	}
	d.notifier.stopping("ending")
	tasks.Wait()
	policy, why := d.policy()
	log.Info("stopping", "onExit", string(policy), "reason", why)
	return d.engine.Stop(policy)
}

// load reads the configuration and refuses one that cannot be run: its faults are the
// error. Warnings are what can be run and is hardly meant so.
func load(path string) (config *routing.Config, warnings intent.Problems, err error) {
	config, problems, err := intent.Load(path)
	if err != nil {
		return nil, nil, err
	}
	if refused := problems.Errors(); len(refused) > 0 {
		return nil, nil, refused
	}
	return config, problems.Warnings(), nil
}

// nodeName returns this node's name: as told, else as configured, else from the
// environment, else the lower-case hostname.
func (f flags) nodeName(c *routing.Config) string {
	if f.node != "" {
		return f.node
	}
	if c.Node != "" {
		return c.Node
	}
	if name := os.Getenv("NODE_NAME"); name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(host)
}

// daemon holds what outlives one configuration.
type daemon struct {
	flags
	ctx      context.Context // of the process
	log      *logger
	engine   *engine.Engine
	health   *health.Health
	notifier notifier
	drainer  *drain.Drainer

	seen      seen
	reloading sync.Mutex // one reload at a time
	nodes     atomic.Pointer[nodes]
	exit      atomic.Pointer[routing.Config] // in force
}

// State and Wait are what the server shows.
func (d *daemon) State() *routing.State { return d.engine.State() }

func (d *daemon) Wait(ctx context.Context, after uint64) (*routing.State, error) {
	return d.engine.Wait(ctx, after)
}

// Unloaded says that the configuration's file is another than the one that was read
// last; empty: it is not, or an idle daemon will take it up by itself.
func (d *daemon) Unloaded() string {
	if c := d.exit.Load(); c == nil || c.Idle() || !d.seen.changed(d.config) {
		return ""
	}
	if _, err := os.Stat(d.config); err != nil {
		return d.config + " is gone since it was loaded: what was in it stays in force"
	}
	return d.config + " has changed since it was read: netclassctl reload loads it"
}

// Explain and Verify are what the server asks.
func (d *daemon) Explain(ctx context.Context, q routing.Question) ([]*routing.Explanation, error) {
	return d.engine.Explain(ctx, q)
}

func (d *daemon) Verify(ctx context.Context, all bool) (*routing.Verification, error) {
	return d.engine.Verify(ctx, all)
}

// Reload reads the configuration anew, and returns what it warns of once what is
// dropped is gone, or that it is not. A bad one is refused and the last good one
// stays in force.
func (d *daemon) Reload(ctx context.Context, validateOnly bool) ([]routing.Problem, error) {
	config, warnings, err := d.reload(validateOnly)
	if err != nil || validateOnly {
		return warnings, err
	}
	if toCome := d.engine.Settle(ctx, config); toCome != "" {
		d.log.Warn("configuration loaded, but not carried out yet", "config", d.config, "to_come", toCome)
		warnings = append(warnings, routing.Problem{File: d.config, Message: "it has been loaded, but not all of it is carried out yet: " + toCome})
	}
	return warnings, nil
}

func (d *daemon) reload(validateOnly bool) (*routing.Config, []routing.Problem, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if !validateOnly {
		d.notifier.reloading()
		defer d.notifier.reloaded()
		d.seen.take(d.config)
	}
	file := text(d.config)
	config, warnings, err := load(d.config)
	switch inForce := d.exit.Load(); {
	case err != nil:
	case config.Idle() && inForce != nil && !inForce.Idle():
		// Most likely somebody has lost it, or is just writing it.
		err = nothing(d.config)
	case cutOff(config, inForce):
		err = lacksTables(d.config, tablesOf(inForce))
	case shortened(config, inForce, file, d.seen.inForce) != "":
		err = wasCut(d.config, shortened(config, inForce, file, d.seen.inForce))
	case config.Idle() && why(d.config) == notThere:
		if !validateOnly {
			d.use(config) // what was wrong with an earlier one is no more
		}
		return nil, nil, absent(d.config)
	}
	if err != nil {
		if !validateOnly {
			d.engine.Reject(first(err))
			d.log.Error("configuration refused", "config", d.config, "error", brief(err))
		}
		return nil, nil, invalid(err)
	}
	if !validateOnly {
		d.seen.inForce = file
		d.use(config)
		d.log.Info("configuration loaded", "config", d.config)
		d.warn(warnings)
	}
	return config, append(faults(warnings), unread(config, d.config)...), nil
}

// warn logs what is hardly meant so in the configuration that is in force.
func (d *daemon) warn(warnings intent.Problems) {
	for _, w := range warnings {
		d.log.Warn("configuration warning", "warning", w.Brief())
	}
}

// use puts a configuration in force.
func (d *daemon) use(c *routing.Config) {
	d.log.set(c.Log)
	d.exit.Store(c)
	d.follow(c)
	d.nameTables(c)
	status := routing.ConfigStatus{Path: d.config, Unread: unreadable(c)}
	if !c.Idle() || why(d.config) == asksForNothing {
		status.LoadedAt = time.Now()
	}
	d.engine.Configure(c, status, passwords(c, d.log.Logger))
	d.health.Watch(readyURLs(c))
}

// policy returns what is to become of what is ours when we end, and why.
func (d *daemon) policy() (routing.ExitPolicy, string) {
	c := d.exit.Load()
	switch {
	case c == nil:
		return routing.ExitKeep, "no configuration"
	case c.Daemon.OnExit == routing.ExitAuto:
		return systemd.exitPolicy()
	}
	return c.Daemon.OnExit, "configured"
}

// lateHangup is how long after SIGTERM a SIGHUP that was sent before it may come:
// the kernel gives them to different threads, of which the second may be quicker.
const lateHangup = 50 * time.Millisecond

// reloadOn reloads on each hangup. Its refusal has been logged and is in the
// status.
func (d *daemon) reloadOn(hangups <-chan os.Signal) {
	for {
		select {
		case <-hangups:
			_, _ = d.Reload(d.ctx, false)
		case <-d.ctx.Done():
			select {
			case <-hangups: // it was sent before the end
				_, _ = d.Reload(d.ctx, false)
			case <-time.After(lateHangup):
			}
			return
		}
	}
}

// waitForConfig takes up the configuration that a daemon without one waits for.
// After that a change waits for somebody to say so.
func (d *daemon) waitForConfig() {
	ctx, stop := context.WithCancel(d.ctx)
	defer stop()
	intent.Watch(ctx, d.config, d.log.Logger, func() {
		if !d.exit.Load().Idle() {
			stop() // somebody has said so meanwhile
			return
		}
		config, _, err := load(d.config)
		if err == nil && config.Idle() && d.engine.State().Config.Error == "" {
			return
		}
		if err != nil && d.engine.State().Config.Error == first(err) {
			return
		}
		if _, err := d.Reload(d.ctx, false); err == nil && !d.exit.Load().Idle() {
			stop()
		}
	})
}
