#!/usr/bin/env bash
# Builds the Debian and RPM packages into a folder: build.sh FOLDER [ARCH...], by
# default for amd64 and arm64. What it makes depends on the commit and the version of
# Go alone: VERSION and SOURCE_DATE_EPOCH are the commit's unless they are given.
# FORMATS are deb and rpm; BUILD_DIR, where given, keeps what is built on the way for
# the next time.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
architectures=("$@")
((${#architectures[@]})) || architectures=(amd64 arm64)
cd "$(dirname "$0")/../.."
. packaging/release/pinned.sh
: "${GO:=go}" "${FORMATS:=deb rpm}"
# Not by :=, which would go on with nothing where git fails.
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# A version that dpkg and rpm can compare: v1.2.3-rc1 comes before v1.2.3, and that
# before what is three commits later; until the first tag it is the commit's time
# that grows.
if [[ $VERSION =~ ^v?([0-9]+\.[0-9]+.*)$ ]]; then
	PACKAGE_VERSION=$(sed -E 's/-(alpha|beta|rc)/~\1/; s/-/+/; s/-/./g' <<<"${BASH_REMATCH[1]}")
else
	PACKAGE_VERSION=0~$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M%S).${VERSION//-/.}
fi
export GO SOURCE_DATE_EPOCH PACKAGE_VERSION VERSION

if [[ -z ${BUILD_DIR:-} ]]; then
	BUILD_DIR=$(mktemp -d)
	trap 'rm -rf "$BUILD_DIR"' EXIT
fi
flags=(-trimpath -buildvcs=false -ldflags "-s -w -X netclass.dev/version.Version=$VERSION")
for ARCH in "${architectures[@]}"; do
	export ARCH STAGE=$BUILD_DIR/$ARCH
	mkdir -p "$STAGE/bin"
	GOARCH=$ARCH "$GO" build "${flags[@]}" -o "$STAGE/bin/" ./cmd/netclassd ./cmd/netclassctl
	rm -rf "$STAGE/made"
	mkdir -p "$STAGE/made/doc"
	"$GO" run "${flags[@]}" ./packaging/man "$STAGE/made"
	GOARCH=$ARCH packaging/release/licences.sh >"$STAGE/made/doc/LICENSES"
	if test -e CHANGELOG.md; then install -m 644 CHANGELOG.md "$STAGE/made/doc/"; fi
	for format in $FORMATS; do
		"$GO" tool -modfile=tools.mod nfpm package --config packaging/deb-rpm/nfpm.yaml --packager "$format" --target "$out/"
	done
done
