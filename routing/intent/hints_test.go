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
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, problems := intent.Parse("f", []byte(test.text)); brief(problems) != test.want {
				t.Errorf("got\n%swant\n%s", brief(problems), test.want)
			}
		})
	}
}
