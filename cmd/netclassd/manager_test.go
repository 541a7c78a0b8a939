package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestExitAuto asks a systemctl that stands in for the real one.
func TestExitAuto(t *testing.T) {
	const v2 = "0::/system.slice/netclassd.service\n"
	for name, tt := range map[string]struct {
		cgroup, script string
		unmanaged      bool
		want           routing.ExitPolicy
		why            string
	}{
		"stop":            {cgroup: v2, script: "echo '812 netclassd.service stop running'", want: routing.ExitFlush, why: "being stopped"},
		"restart":         {cgroup: v2, script: "echo '812 netclassd.service restart running'", want: routing.ExitKeep, why: "job restart"},
		"kill":            {cgroup: v2, script: "echo 'No jobs running.'", want: routing.ExitKeep, why: "no job"},
		"another's job":   {cgroup: v2, script: "echo '9 kubelet.service stop running'", want: routing.ExitKeep, why: "no job"},
		"shutdown":        {cgroup: v2, script: "echo '30 netclassd.service stop running'; echo '31 kubelet.service stop waiting'", want: routing.ExitFlush, why: "being stopped"},
		"a group below":   {cgroup: "0::/system.slice/netclassd.service/daemon\n", script: "echo '1 netclassd.service stop running'", want: routing.ExitFlush, why: "being stopped"},
		"cgroup v1":       {cgroup: "4:cpu:/\n1:name=systemd:/system.slice/netclassd.service\n", script: "echo '1 netclassd.service stop running'", want: routing.ExitFlush, why: "being stopped"},
		"the right unit":  {cgroup: v2, script: `[ "$7" = netclassd.service ] || [ "$6" = netclassd.service ] && echo "1 netclassd.service stop running"`, want: routing.ExitFlush, why: "being stopped"},
		"not a service":   {cgroup: "0::/user.slice/session-1.scope\n", script: "echo '1 x stop running'", want: routing.ExitKeep, why: "none in"},
		"it fails":        {cgroup: v2, script: "exit 1", want: routing.ExitKeep, why: "exit status 1"},
		"it hangs":        {cgroup: v2, script: "exec sleep 60", want: routing.ExitKeep, why: "ask systemd"},
		"garbage":         {cgroup: v2, script: "head -c 100000 /dev/zero", want: routing.ExitKeep, why: "no job"},
		"nobody to ask":   {cgroup: v2, script: "echo '1 netclassd.service stop running'", unmanaged: true, want: routing.ExitKeep, why: "no service manager"},
		"no cgroups here": {script: "echo '1 netclassd.service stop running'", want: routing.ExitKeep, why: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := manager{cgroup: filepath.Join(dir, "cgroup"), systemctl: filepath.Join(dir, "systemctl")}
			if tt.cgroup != "" {
				write(t, m.cgroup, tt.cgroup, 0o644)
			}
			write(t, m.systemctl, "#!/bin/sh\n"+tt.script+"\n", 0o755)
			t.Setenv("NOTIFY_SOCKET", "")
			t.Setenv("INVOCATION_ID", "0123")
			if tt.unmanaged {
				t.Setenv("INVOCATION_ID", "")
			}
			begin := time.Now()
			got, why := m.exitPolicy()
			if got != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("%s because %q, want %s because %q", got, why, tt.want, tt.why)
			}
			if took := time.Since(begin); took > systemdTime+10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
