package world

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"netclass.dev/test/lab"
)

// documented returns the one block of docs/routers.md in a language.
func documented(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "routers.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("docs/routers.md has %d blocks in %s, want 1", len(found), language)
	}
	return found[0][1]
}

// outage is longer than the hold time, so that both ends have given up.
const outage = 11 * time.Second

// TestDocumentedRouters runs exactly the routers' configurations that are printed
// in the documentation, and takes two nodes' links away for longer than the hold time,
// one where the node sees it and one where it does not.
func TestDocumentedRouters(t *testing.T) {
	t.Parallel()
	for kind, language := range map[string]string{"bgpd": "frr", "bird": "bird"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			c := startRouted(t, example(t, "config.yaml"), kind, documented(t, language), nil)
			all := func() error { return c.routerKnows(lab.LoadBalancers, 3) }
			t.Logf("the router's routes are there after %v", c.within(convergence, "the router's routes", all))

			c.must(c.Node(2).Cut(lab.Ingress))
			c.must(c.Node(3).LinkDown(lab.Ingress))
			time.Sleep(outage)
			c.must(c.routerKnows(lab.LoadBalancers, 1))
			c.must(c.Node(2).Mend(lab.Ingress))
			c.must(c.Node(3).LinkUp(lab.Ingress))
			took := c.within(convergence, "the router's routes", all)
			t.Logf("%v after ingress0 was away for %v the router has the routes again", took, outage)
			if took > 15*time.Second { // one wait of each end, and a busy machine's
				t.Errorf("that is long: what do the router's timers say?")
			}
			c.routerSawNothing()
		})
	}
}
