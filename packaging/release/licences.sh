#!/usr/bin/env bash
# Prints the licences and notices of all that the binaries are made of, which must go
# with them wherever they go. A module without a licence is refused.
set -euo pipefail
cd "$(dirname "$0")/../.."
"${GO:-go}" list -deps -f '{{with .Module}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}' ./cmd/netclassd ./cmd/netclassctl |
	LC_ALL=C sort -u | {
	echo "netclassd and netclassctl contain the following. Go's runtime and standard library,"
	echo "in them too, have the licence of golang.org/x/sys."
	while IFS='|' read -r module dir; do
		printf '\n==== %s\n' "${module% }"
		found=
		for file in "$dir"/{LICENSE,LICENCE,COPYING,NOTICE,PATENTS}*; do
			if [[ ! -f $file ]]; then continue; fi
			printf '\n---- %s\n\n' "${file##*/}"
			cat "$file"
			case ${file##*/} in LICEN* | COPYING*) found=yes ;; esac
		done
		if [[ -z $found ]]; then
			echo "licences: the module $module has no licence" >&2
			exit 1
		fi
	done
}
