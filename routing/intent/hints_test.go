package intent_test

import (
	"testing"

	"netclass.dev/routing/intent"
)

// TestHints: what is said of the faults that somebody new makes.
func TestHints(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{
			"a priority behind main",
			header + "networks: {a: [10.0.0.0/8]}\ntables: [{name: t, id: 9, rules: [{from: a, priority: {ipv4: 40000}}]}]\n",
			"3:62: error: priority 40000 comes after main's rule at 32766 and is never reached; choose one of 1 to 32765\n",
		},
		{
			"a guard of what is translated",
			header + "networks: {services: [10.96.0.0/16]}\nclasses: [{name: a, link: b, traffic: [{from: services, to: services}]}]\nguard: {networks: [services]}\n",
			"3:27: warning: class a: no table uses link b, so nothing here can make its traffic leave by it\n" +
				"4:8: warning: guard: services: a node's own connection to such an address is looked up before it is translated, and would stop here; fence it instead\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, problems := intent.Parse("f", []byte(test.text)); brief(problems) != test.want {
				t.Errorf("got\n%swant\n%s", brief(problems), test.want)
			}
		})
	}
}
