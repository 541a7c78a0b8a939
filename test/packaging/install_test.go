package packaging

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// TestInstalled is a cluster one of whose nodes runs the Talos extension, one the
// pod of the DaemonSet, and one the set-up by hand; with the seed's configuration,
// from the files that a newcomer is given. Nothing that is done to the two loses a
// packet.
func TestInstalled(t *testing.T) {
	need.Program(t, "crun")
	images := images(t)
	c := newCluster(t)
	bird, err := c.Node(3).StartHandMade(t.Context())
	c.must(err)

	x := newTalos(t, images, c.Node(1))
	x.idle()
	p := newPod(t, images, c.Node(2), read(t, render(t, seedOverlay)), c.api, c.token)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the extension ends its log:\n%s\nthe pod its:\n%s", x.LogTail(30), p.LogTail(30))
		}
	})

	// The machine configuration comes.
	x.stop()
	var files configFiles
	seedDocument(t, "all-nodes.yaml", "configFiles", &files)
	if len(files.ConfigFiles) != 1 || files.ConfigFiles[0].MountPath != "/etc/netclassd/config.yaml" {
		t.Fatalf("%+v", files)
	}
	x.content = files.ConfigFiles[0].Content
	x.kubeconfig(c.api, c.token)
	x.start()
	p.run()
	within(t, convergence, "classes apart", func() error { return c.Separated(c.Nodes...) })
	c.well(&x.container)
	c.well(&p.container)
	x.contained()
	p.contained()
	x.socket()

	t.Run("config change on Talos", func(t *testing.T) {
		c.settle(bird)
		unharmed := c.unharmed(2)
		watching, err := x.node.Start(lab.Command{Path: filepath.Join(x.root, "usr/local/bin/netclassctl"), Args: []string{"--socket", x.host("/run/netclassd/netclassd.sock"), "watch"}, Name: "watch"})
		c.must(err)
		x.content = strings.Replace(x.content, "\nguard:", "\ndaemon: {resync: 20s}\nguard:", 1)
		x.stop()
		<-watching.Done()
		x.start()
		c.well(&x.container)
		unharmed()
	})
	t.Run("roll-out of the DaemonSet", func(t *testing.T) {
		c.settle(bird)
		unharmed := c.unharmed(1)
		p.end(p.pid)
		p.unusable()
		p.ready()
		c.well(&p.container)
		unharmed()
	})
	t.Run("configurations that are worse", func(t *testing.T) {
		good := p.objects.config.Data["config.yaml"]
		for _, mistake := range []struct {
			old, fresh, want string
			watch            time.Duration
		}{
			{"pod0", "pod9", "link pod9 does not exist", time.Second},
			{"ingress0", "ingres0", "link ingres0 does not exist", time.Second},
			{"cilium_host", "cilium_hots", "link cilium_hots does not exist", time.Second},
			// All the time that paths from before are held.
			{"mesh: {link: pod0}", "mesh: {link: pod0, passwordFile: mesh}", "no session of the mesh is up", 15 * time.Second},
		} {
			t.Run(mistake.fresh, func(t *testing.T) {
				config := strings.ReplaceAll(good, mistake.old, mistake.fresh)
				if config == good {
					t.Fatalf("the configuration has no %q", mistake.old)
				}
				p.worse(t, config, mistake.want, mistake.watch)
			})
		}
		p.end(p.pid)
		p.files("config", p.objects.config.Data)
		p.ready()
		c.well(&p.container)
	})
	t.Run("kill", func(t *testing.T) {
		c.settle(bird)
		unharmed := c.unharmed()
		for _, k := range []*container{&x.container, &p.container} {
			c.must(syscall.Kill(k.pid, syscall.SIGKILL))
			<-k.Done()
			k.run()
		}
		c.well(&x.container)
		c.well(&p.container)
		unharmed()
	})
	t.Run("Talos without its configuration", func(t *testing.T) {
		unharmed := c.unharmed()
		x.stop()
		x.content = ""
		x.start()
		within(t, convergence, "idle", func() error { _, err := x.ctl("health"); return err })
		unharmed()
	})
	c.routerSawNothing()
	t.Run("flush on Talos", func(t *testing.T) {
		// BIRD sends what it has no route for to the router: not counted here.
		stop := c.pings(c.Nodes[:2])
		x.stop()
		x.content = strings.Replace(files.ConfigFiles[0].Content, "\nguard:", "\ndaemon: {onExit: flush}\nguard:", 1)
		x.start()
		c.well(&x.container)
		x.stop()
		x.nothing()
		time.Sleep(time.Second) // what it costs shows now
		stop()
	})
}

// settle waits until BIRD is done with the last restart: whoever restarts once more
// before loses what is kept for it (RFC 4724 §4.2).
func (c *cluster) settle(bird *lab.BIRD) {
	c.t.Helper()
	within(c.t, convergence, "the end of restarts at BIRD", func() error {
		for _, n := range c.Nodes[:2] {
			for _, f := range routing.Families {
				out, err := bird.Ctl(c.t.Context(), "show", "protocols", "all", fmt.Sprintf("k8s_%d_%s", n.Number, f))
				if err != nil {
					return err
				}
				if !strings.Contains(out, "Established") || strings.Contains(out, "graceful restart active") {
					return fmt.Errorf("%s", out)
				}
			}
		}
		return nil
	})
}

// unharmed watches until it is called that no ping is lost, that netclassd changes
// nothing on some nodes, and that BIRD loses nothing.
func (c *cluster) unharmed(quiet ...int) func() {
	c.t.Helper()
	stop := c.pings(c.Nodes)
	lost := c.changes(c.Node(3), gone)
	var changed []func() []string
	for _, n := range quiet {
		changed = append(changed, c.changes(c.Node(n), ours))
	}
	return func() {
		c.t.Helper()
		stop()
		if lines := lost(); len(lines) > 0 {
			c.t.Errorf("BIRD lost routes:\n%s", strings.Join(lines, "\n"))
		}
		for i, changes := range changed {
			if lines := changes(); len(lines) > 0 {
				c.t.Errorf("%s changed:\n%s", c.Node(quiet[i]).Name, strings.Join(lines, "\n"))
			}
		}
	}
}

// idle is the service before there is a configuration.
func (x *talos) idle() {
	x.t.Helper()
	x.start()
	x.within(convergence, "idle", func() error {
		out, err := x.ctl("health")
		if err == nil && strings.TrimSpace(out) != "SERVING" {
			err = fmt.Errorf("health %q", out)
		}
		return err
	})
	if out, err := x.ctl("status"); err != nil || !strings.Contains(out, "not there yet, or empty") {
		x.t.Errorf("%v:\n%s", err, out)
	}
	x.nothing()
}

// nothing fails the test if the node's kernel has something of ours.
func (x *talos) nothing() {
	x.t.Helper()
	for _, list := range []string{"-N -4 route show table all proto 148", "-N -6 route show table all proto 148", "-N -4 rule show", "-N -6 rule show"} {
		out, err := x.node.Exec(x.t.Context(), "ip", strings.Fields(list)...)
		if strings.Contains(list, "rule") && !strings.Contains(out, "proto 148") {
			out = ""
		}
		if err != nil || out != "" {
			x.t.Errorf("ip %s: %v\n%s", list, err, out)
		}
	}
}

// contained looks at the container from outside: it is what Talos makes of it, and
// the speaker in it has next to nothing.
func (x *talos) contained() {
	x.t.Helper()
	x.checkContained(mask(grantable(x.t)...))
	if ns, err := os.Readlink("/proc/self/ns/ipc"); err != nil || ns != x.namespace("ipc") {
		x.t.Errorf("%v: the IPC namespace is not the host's", err)
	}
	for path, want := range map[string]string{
		"ipv4/conf/pod0/rp_filter": "0", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/all/ignore_routes_with_linkdown": "1",
		"ipv6/conf/pod0/ignore_routes_with_linkdown": "1", "ipv6/conf/all/keep_addr_on_down": "1",
	} {
		err := x.node.Do(func() error {
			got, err := os.ReadFile("/proc/sys/net/" + path)
			if err == nil && strings.TrimSpace(string(got)) != want {
				err = fmt.Errorf("%s is %s", path, got)
			}
			return err
		})
		if err != nil {
			x.t.Error(err)
		}
	}
}

// unusable is a pod that is made anew with a configuration that has a mistake: it
// ends, and says where.
func (p *pod) unusable() {
	p.t.Helper()
	good := p.objects.config.Data["config.yaml"]
	p.files("config", map[string]string{"config.yaml": strings.Replace(good, "link: pod0", "lnk: pod0", 1)})
	defer p.files("config", p.objects.config.Data)
	p.launch()
	err := p.Wait(p.t.Context())
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 78 || !strings.Contains(p.LogTail(20), "lnk") {
		p.t.Errorf("%v, and its log ends:\n%s", err, p.LogTail(20))
	}
}

// ready runs the pod until every probe is met.
func (p *pod) ready() {
	p.t.Helper()
	p.run()
	for name, probe := range p.probes() {
		within(p.t, convergence, name, func() error { return p.probe(probe) })
	}
}

// worse is a pod that is made anew with a configuration that can be used, but with
// which its node's classes do not work: it lives, is never ready, and says why. A
// roll-out that waits for it stops.
func (p *pod) worse(t *testing.T, config, why string, watch time.Duration) {
	t.Helper()
	p.end(p.pid)
	p.files("config", map[string]string{"config.yaml": config})
	p.files("passwords", map[string]string{"mesh": "another than the mesh's"})
	p.run()
	probes := p.probes()
	within(t, convergence, "it lives", func() error {
		return errors.Join(p.probe(probes["startup probe"]), p.probe(probes["liveness probe"]))
	})
	said := ""
	ready := func() error {
		out, err := p.ctl(probes["readiness probe"].Exec.Command[1:]...)
		if err == nil {
			t.Fatalf("it is ready: %s", out)
		}
		said = out + err.Error()
		return err
	}
	within(t, convergence, why, func() error {
		if err := ready(); !strings.Contains(said, why) {
			return err
		}
		return nil
	})
	for end := time.Now().Add(watch); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		_ = ready() // it is not, for whatever reason
	}
}

func (p *pod) contained() {
	p.t.Helper()
	p.checkContained(mask(p.spec.capabilities...))
	for name, probe := range p.probes() {
		if err := p.probe(probe); err != nil {
			p.t.Errorf("%s: %v", name, err)
		}
	}
}

func (c *container) namespace(kind string) string {
	c.t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.pid, kind))
	if err != nil {
		c.t.Fatal(err)
	}
	return ns
}

// checkContained holds the container against what was asked for: a test in a
// container that is none proves nothing.
func (c *container) checkContained(capabilities string) {
	c.t.Helper()
	for key, want := range map[string]string{"CapEff": capabilities, "CapBnd": capabilities, "NoNewPrivs": "1", "Seccomp": "2"} {
		if got := c.status(c.pid, key); got != want {
			c.t.Errorf("%s: %s is %s, want %s", c.name, key, got, want)
		}
	}
	if numbers := strings.Fields(c.status(c.pid, "NSpid")); numbers[len(numbers)-1] != "1" {
		c.t.Errorf("%s: its first process has the numbers %v", c.name, numbers)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.pid))
	if err != nil {
		c.t.Fatal(err)
	}
	paths := []string{"/", "/proc/sys", "/sys"}
	for _, m := range c.spec.mounts {
		if strings.HasPrefix(m.Destination, "/etc/netclassd") {
			paths = append(paths, m.Destination)
		}
	}
	if len(paths) < 4 {
		c.t.Errorf("%s: its configuration is mounted nowhere", c.name)
	}
	for _, path := range paths {
		// Of mounts on one place the last is what is seen.
		options := ""
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); f[4] == path {
				options = f[5]
			}
		}
		if !slices.Contains(strings.Split(options, ","), "ro") {
			c.t.Errorf("%s: %s is not mounted read-only: %q", c.name, path, options)
		}
	}
	speaker, err := first(c.pid, "netclass-bgp")
	if err != nil {
		c.t.Fatal(err)
	}
	for key, want := range map[string]string{"CapEff": mask("NET_BIND_SERVICE"), "CapPrm": mask("NET_BIND_SERVICE"), "Uid": "65534\t65534\t65534\t65534"} {
		if got := c.status(speaker, key); got != want {
			c.t.Errorf("%s: the speaker's %s is %s, want %s", c.name, key, got, want)
		}
	}
}

// socket asks from outside the container, as the debug pod does: by the paths of
// the host that it has, and without a capability.
func (x *talos) socket() {
	x.t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text(x.t, "packaging/talos/debug-pod.yaml")), &pod); err != nil {
		x.t.Fatal(err)
	}
	where := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		where[v.Name] = v.HostPath.Path
	}
	program, ok := strings.CutPrefix(where["program"], "/usr/local/lib/containers/netclassd/")
	if !ok {
		x.t.Fatalf("the debug pod has its program from %s", where["program"])
	}
	out, err := x.node.Exec(x.t.Context(), need.Program(x.t, "setpriv"), "--bounding-set=-all",
		filepath.Join(x.root, program, "netclassctl"), "--socket", filepath.Join(x.host(where["socket"]), "netclassd.sock"), "status")
	if err != nil || !strings.Contains(out, "k8s-1") {
		x.t.Errorf("%v:\n%s", err, out)
	}
	if info, err := os.Stat(x.host("/run/netclassd")); err != nil || info.Mode().Perm() != 0o700 {
		x.t.Errorf("the socket's folder: %v %v", info, err)
	}
}
