package cli_test

import (
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

// TestOthersDrain: another node that has not said that it is drained is not shown as it.
func TestOthersDrain(t *testing.T) {
	st := servertest.Healthy()
	st.Plan.Drained = []string{"k8s-2", "k8s-3"}
	st.Plan.DrainPhases = map[string]routing.DrainPhase{"k8s-2": routing.DrainGoing}
	st.Health, st.Plan.Classes[1].Health = routing.DrainingState, routing.DrainingState
	socket := servertest.Start(t, servertest.NewSource(st))
	for command, want := range map[string][]string{
		"status":          {"draining: k8s-2; drained: k8s-3", "Health     Draining"},
		"status -o json":  {`"drainedNodes": ["k8s-3"]`, `"drainingNodes": ["k8s-2"]`, `"HEALTH_DRAINING"`},
		"nodes k8s-2":     {"Drain        Draining"},
		"nodes k8s-3":     {"Drain        Drained"},
		"nodes -o json":   {`"DRAIN_PHASE_DRAINING"`},
		"classes pod-pod": {"State      Draining"},
	} {
		out, errs, code := run(0, append([]string{"--socket", socket}, strings.Fields(command)...)...)
		flat := strings.Join(strings.Fields(strings.NewReplacer("[ ", "[", " ]", "]").Replace(out)), " ")
		flat = strings.NewReplacer("[ ", "[", " ]", "]").Replace(flat)
		for _, w := range want {
			if !strings.Contains(out, w) && !strings.Contains(flat, w) {
				t.Errorf("%s lacks %q: exit %d, %s%s", command, w, code, out, errs)
			}
		}
	}
}
