package sim

// event is one thing that may happen, with how often it does.
type event struct {
	weight int
	do     func(*world)
}

var events = []event{
	{6, (*world).linkDown}, {4, (*world).linkUp}, {4, (*world).linkFlap}, {3, (*world).carrier}, {3, (*world).linkGone}, {1, (*world).linkRenamed},
	{2, (*world).loopback}, {2, (*world).ipv6}, {1, (*world).diskFull}, {4, (*world).address}, {2, (*world).tentative}, {3, (*world).renumbered},
	{5, (*world).peerEnds}, {4, (*world).peerReturns}, {3, (*world).peerSays}, {2, (*world).speakerDies},
	{4, (*world).drains}, {2, (*world).undrains}, {3, (*world).routerSpeaks},
	{4, (*world).nodeChanges}, {1, (*world).nodesVanish}, {5, (*world).nodesSync}, {2, (*world).annotation},
	{6, (*world).meddle}, {2, (*world).stands}, {4, (*world).refuses}, {2, (*world).opFails}, {2, (*world).dumpFails}, {1, (*world).goesDeaf}, {1, (*world).goesBlind}, {1, (*world).fight},
	{3, (*world).opTrap}, {4, (*world).restart}, {2, (*world).crashLater}, {3, (*world).reload}, {2, (*world).quietRestart}, {2, (*world).clear},
}

func (w *world) pick(n int) int { return w.rng.IntN(n) }

// step lets one event happen.
func (w *world) step() {
	total := 0
	for _, e := range events {
		total += e.weight
	}
	at := w.pick(total)
	for _, e := range events {
		if at -= e.weight; at < 0 {
			w.events++
			e.do(w)
			return
		}
	}
}
