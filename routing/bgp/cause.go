package bgp

import (
	"fmt"

	"netclass.dev/routing"
)

// NOTIFICATION error codes (RFC 4271 §4.5).
const (
	codeHoldTimer = 4
	codeCease     = 6
)

// ceaseMaxPrefixes is the CEASE subcode "maximum number of prefixes reached".
const ceaseMaxPrefixes = 1

var codeNames = map[uint8]string{
	1: "Message Header Error", 2: "OPEN Message Error", 3: "UPDATE Message Error",
	4: "Hold Timer Expired", 5: "Finite State Machine Error", 6: "Cease", 7: "ROUTE-REFRESH Message Error",
}

// ceaseNames holds the subcodes of RFC 4486, RFC 8538 and RFC 9384.
var ceaseNames = map[uint8]string{
	1: "Maximum Number of Prefixes Reached", 2: "Administrative Shutdown", 3: "Peer De-configured",
	4: "Administrative Reset", 5: "Connection Rejected", 6: "Other Configuration Change",
	7: "Connection Collision Resolution", 8: "Out of Resources", 9: "Hard Reset", 10: "BFD Down",
}

var openNames = map[uint8]string{
	1: "Unsupported Version Number", 2: "Bad Peer AS", 3: "Bad BGP Identifier",
	4: "Unsupported Optional Parameter", 6: "Unacceptable Hold Time", 7: "Unsupported Capability", 11: "Role Mismatch",
}

// notification is a NOTIFICATION that ended a session.
type notification struct {
	code, subcode uint8
	sent          bool
	text          string // a shutdown communication (RFC 9003), or what was wrong
}

func (n notification) String() string {
	name, ok := codeNames[n.code]
	if !ok {
		name = fmt.Sprintf("code %d", n.code)
	}
	subs := map[uint8]map[uint8]string{2: openNames, codeCease: ceaseNames}[n.code]
	if sub, ok := subs[n.subcode]; ok {
		name += "/" + sub
	} else if n.subcode != 0 {
		name += fmt.Sprintf("/%d", n.subcode)
	}
	if n.sent {
		name += " sent"
	} else {
		name += " received"
	}
	if n.text != "" {
		name += ": " + n.text
	}
	return name
}

// ending is what was heard of a session's end before the end itself.
type ending struct {
	holdTimer bool // ours ran out
	notified  *notification
}

// cause tells why the session ended. Without a NOTIFICATION or a timer it can
// only be the connection.
func (e ending) cause() (routing.DownCause, string) {
	switch n := e.notified; {
	case e.holdTimer:
		return routing.CauseHoldTimer, "hold timer expired"
	case n == nil:
		return routing.CauseConnection, "connection closed"
	case n.code == codeHoldTimer:
		return routing.CauseHoldTimer, n.String()
	case n.code == codeCease:
		return routing.CauseCease, n.String()
	default:
		return routing.CauseError, n.String()
	}
}

// prefixLimit reports whether we ended the session because of its prefixes.
func (e ending) prefixLimit() bool {
	n := e.notified
	return n != nil && n.sent && n.code == codeCease && n.subcode == ceaseMaxPrefixes
}
