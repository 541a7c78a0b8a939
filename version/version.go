// Package version says which build of netclass this is.
package version

import "runtime/debug"

// Version is set by the release build (-ldflags -X netclass.dev/version.Version=…).
var Version = "dev"

// String returns the version: the release's, else what the Go toolchain recorded
// about the module and its commit.
func String() string {
	if Version != "dev" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return Version + "-" + s.Value[:12]
		}
	}
	return Version
}
