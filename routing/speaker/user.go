package speaker

import (
	"os/user"
)

// userEnv tells the process whom to become, as UID:GID (package bgp reads it).
const userEnv = "NETCLASS_SPEAKER_USER"

// nobody is the user nobody where no file says so: the overflow user of the
// kernel.
const nobody = "65534:65534"

// userOf resolves the user that the process becomes, as UID:GID.
func userOf(name string) string {
	names := []string{name}
	if name == "" {
		names = []string{"netclassd", "nobody"}
	}
	for _, n := range names {
		if u, err := user.Lookup(n); err == nil {
			return u.Uid + ":" + u.Gid
		}
	}
	return nobody
}
