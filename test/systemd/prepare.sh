#!/usr/bin/env bash
# Prepares, in .cache/systemd, what the tests here need: the root filesystems of
# Debian 12 and 13, once, and two versions of the packages from what is in the tree.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=$PWD/.cache/systemd
packages=systemd,systemd-sysv,dbus,iproute2,man-db,rpm
mkdir -p "$cache"

# From where apt has its packages, and by its proxy; debootstrap's own choice if apt
# has not been told.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null |
	grep -E '^(https?|file):' | head -n 1 || true)
if [[ -z ${http_proxy:-} ]]; then
	eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
	case ${http_proxy:-} in '' | DIRECT) unset http_proxy ;; *) export http_proxy ;; esac
fi

for release in 12:bookworm 13:trixie; do
	root=$cache/debian-${release%:*} suite=${release#*:}
	if [[ $(cat "$root/etc/test-packages" 2>/dev/null) == "$packages" || -e $root.absent ]]; then continue; fi
	echo "making a root filesystem of Debian ${release%:*}, once: under a minute, kept in $root" >&2
	rm -rf "$root" "$root.new"
	if ! debootstrap --variant=minbase --include="$packages" "$suite" "$root.new" ${mirror:+"$mirror"} >"$root.log" 2>&1; then
		if [[ $suite != bookworm ]] && grep -q 'Failed getting release file' "$root.log"; then
			# The mirror has the other release, but not this one.
			touch "$root.absent"
			continue
		fi
		tail -n 20 "$root.log" >&2
		exit 1
	fi
	rm -rf "$root.new/var/cache/apt/archives"/*.deb "$root.new/var/lib/apt/lists"/*
	echo "$packages" >"$root.new/etc/test-packages"
	mv "$root.new" "$root"
done

for version in 1.0.0 1.0.1; do
	mkdir -p "$cache/$version"
	rm -f "$cache/$version"/*
	VERSION=$version BUILD_DIR=$cache/build-$version packaging/deb-rpm/build.sh "$cache/$version" "$("${GO:-go}" env GOARCH)" >"$cache/build.log" 2>&1 || {
		cat "$cache/build.log" >&2
		exit 1
	}
done
