package inventory

import (
	"os"
	"strings"
)

// bootID tells one boot of the machine from another; empty: it cannot be told.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
