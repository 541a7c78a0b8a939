#!/usr/bin/env bash
# Usage: failures.sh LOG...
# Prints what has failed in the output of `go test`, without what the daemons said:
# of each test, and of each package, its first lines.
set -euo pipefail
echo "== what has failed"
exec awk -v lines=12 '
	/^ *--- FAIL/ { print; left = lines; next }
	/^(FAIL|panic:|fatal error:|WARNING: DATA RACE)/ { print; left = 0; next }
	/"time":"/ || /^[^ ]/ { left = 0 }
	left > 0 { print substr($0, 1, 400); left-- }
' "$@"
