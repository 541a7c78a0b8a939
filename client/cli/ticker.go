package cli

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
)

// ticker prints the events of a watch as a table that has no end. Its columns are as
// wide as what has been seen needs: the snapshot is printed once it is whole, and
// what is longer later moves them for good.
type ticker struct {
	app    *app
	known  map[string]string // what objects are called here, by the API's name
	synced bool
	begun  bool
	held   []tick // of the snapshot, not printed yet
	object int    // width
	state  int
}

// tick is one line.
type tick struct {
	at, event, object string
	state             cell
	reason            string
}

// The least widths: what most objects need.
const (
	objectWidth = 24
	stateWidth  = 11
	timeWidth   = len(time.TimeOnly)
	eventWidth  = len("change")
)

// show prints one event.
func (t *ticker) show(e *pb.WatchResponse) error {
	a := t.app
	switch a.format {
	case formatJSON:
		text, err := line(e)
		a.say("%s", text)
		return err
	case formatYAML:
		a.say("---\n")
		_, err := a.document(proto.Message(e))
		return err
	}
	k := tick{at: e.GetTime().AsTime().In(a.env.Now().Location()).Format(time.TimeOnly)}
	switch {
	case e.GetSynced() != nil:
		k.event = "synced"
		t.synced = true
	case e.GetUpsert() != nil:
		name := e.GetUpsert().GetName()
		switch {
		case !t.synced:
			k.event = "have"
		case t.known[name] != "":
			k.event = "change"
		default:
			k.event = "add"
		}
		k.object, _ = shownName(name)
		if table := e.GetUpsert().GetTable(); table != nil {
			k.object = "table/" + tableName(table)
		}
		t.known[name] = k.object
		k.state, k.reason = a.objectLine(e.GetUpsert())
	default:
		k.event = "gone"
		k.object, k.state.text = shownName(e.GetDelete())
		k.object = either(t.known[e.GetDelete()], k.object)
		delete(t.known, e.GetDelete())
	}
	t.held = append(t.held, k)
	if t.synced {
		t.flush()
	}
	return nil
}

// kinds names the API's collections as the status does.
var kinds = map[string]string{"classes": "class", "peers": "peer", "nodes": "node"}

// shownName is what an object of the API is called where people read: "class/pod-pod"
// for classes/pod-pod, and of conditions/class/pod-pod/NoCarrier what is its object,
// with its reason beside it.
func shownName(name string) (object, reason string) {
	kind, rest, found := strings.Cut(name, "/")
	switch i := strings.LastIndex(rest, "/"); {
	case kind == "conditions" && i > 0:
		reason, _, _ = strings.Cut(rest[i+1:], "#") // the second of one name is name#2
		return rest[:i], reason
	case found && kinds[kind] != "":
		return kinds[kind] + "/" + rest, ""
	}
	return name, ""
}

// flush prints what has been held back.
func (t *ticker) flush() {
	a := t.app
	if !t.begun && len(t.held) > 0 {
		t.begun, t.object, t.state = true, objectWidth, stateWidth
		if !a.noHeaders {
			t.held = append([]tick{{"TIME", "EVENT", "OBJECT", cell{text: "STATE"}, "REASON"}}, t.held...)
		}
	}
	for i := range t.held {
		k := &t.held[i]
		k.object, k.state.text, k.reason = either(clean(k.object), "-"), either(clean(k.state.text), "-"), either(clean(k.reason), "-")
		if most := t.mostObject(); most > 0 {
			k.object = shortenMiddle(k.object, most)
		}
		t.object = max(t.object, utf8.RuneCountInString(k.object))
		t.state = max(t.state, utf8.RuneCountInString(k.state.text))
	}
	for _, k := range t.held {
		if a.env.Width > 0 && a.format != formatWide {
			k.reason = shorten(k.reason, max(a.env.Width-timeWidth-eventWidth-t.object-t.state-4*len("  "), 6))
		}
		pad := strings.Repeat(" ", t.state-utf8.RuneCountInString(k.state.text))
		a.say("%-*s  %-*s  %-*s  %s%s  %s\n", timeWidth, k.at, eventWidth, k.event, t.object, k.object, a.paint(k.state), pad, k.reason)
	}
	t.held = nil
}

// mostObject is the widest that names may be on a terminal, so that a reason has room
// too; 0: any.
func (t *ticker) mostObject() int {
	if t.app.env.Width == 0 || t.app.format == formatWide {
		return 0
	}
	return max(t.app.env.Width-timeWidth-eventWidth-stateWidth-4*len("  ")-leastText, objectWidth)
}

// shortenMiddle cuts a name to a number of characters: both ends tell it from others.
func shortenMiddle(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	tail := most / 2
	return string(runes[:most-tail-1]) + "…" + string(runes[len(runes)-tail:])
}
