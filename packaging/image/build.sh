#!/usr/bin/env bash
# Builds the images for Kubernetes and Talos into FOLDER/images: build.sh FOLDER
# [ARCH...], by default for amd64 and arm64 as one. What it makes depends on the
# commit and the version of Go alone: VERSION and SOURCE_DATE_EPOCH are the commit's
# unless they are given. BUILD_DIR, where given, keeps what is built on the way for the
# next time.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
architectures=("$@")
((${#architectures[@]})) || architectures=(amd64 arm64)
cd "$(dirname "$0")/../.."
. packaging/release/pinned.sh
: "${GO:=go}"
# Not by :=, which would go on with nothing where git fails.
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export GO

if [[ -z ${BUILD_DIR:-} ]]; then
	BUILD_DIR=$(mktemp -d)
	trap 'rm -rf "$BUILD_DIR"' EXIT
fi
flags=(-trimpath -buildvcs=false -ldflags "-s -w -X netclass.dev/version.Version=$VERSION")
for arch in "${architectures[@]}"; do
	GOARCH=$arch "$GO" build "${flags[@]}" -o "$BUILD_DIR/linux_$arch/" ./cmd/netclassd ./cmd/netclassctl
done
packaging/release/licences.sh >"$BUILD_DIR/LICENSES"
"$GO" -C packaging/image build -trimpath -buildvcs=false -o "$BUILD_DIR/netclass-image" .
list=$(IFS=,; echo "${architectures[*]}")
"$BUILD_DIR/netclass-image" build -version "$VERSION" -created "$SOURCE_DATE_EPOCH" -arch "$list" \
	-binaries "$BUILD_DIR" -talos packaging/talos -out "$out/images"
