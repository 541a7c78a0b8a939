#!/usr/bin/env bash
# Builds what a release has into a folder: the packages and images, the binaries by
# themselves, a bill of materials of each (CycloneDX), the licences, the changes, and
# the checksums of all. What it makes depends on the commit and the version of Go
# alone. A release is of a tag and of nothing besides: anything else is refused, unless
# ALLOW_UNTAGGED is set. It is for amd64 and arm64, or the ARCHITECTURES that are given.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
. packaging/release/pinned.sh
: "${GO:=go}" "${ARCHITECTURES:=amd64 arm64}"
read -ra architectures <<<"$ARCHITECTURES"
VERSION=$(git describe --tags --always --dirty)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
if [[ -z ${ALLOW_UNTAGGED:-} ]]; then
	[[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[.0-9]*)?$ ]] ||
		{ echo "release: this is $VERSION, which is no tag vX.Y.Z of a clean tree: tag it, or set ALLOW_UNTAGGED=1 to try" >&2; exit 1; }
	grep -q "^## ${VERSION#v} " CHANGELOG.md ||
		{ echo "release: CHANGELOG.md has no section \"## ${VERSION#v} (DATE)\"" >&2; exit 1; }
	# What git does not know would be built in, or packed, all the same.
	[[ -z $(git status --porcelain) ]] ||
		{ echo "release: the tree has files that are not the tag's; git status names them" >&2; exit 1; }
fi
export GO VERSION SOURCE_DATE_EPOCH
rm -rf "${out:?}"/*
BUILD_DIR=$(mktemp -d)
trap 'rm -rf "$BUILD_DIR"' EXIT
export BUILD_DIR

packaging/deb-rpm/build.sh "$out" "${architectures[@]}"
packaging/image/build.sh "$out" "${architectures[@]}"
rm -rf "$out"/images/*.oci # the same as the tarballs beside them
for arch in "${architectures[@]}"; do
	for program in netclassd netclassctl; do
		name=$program-$VERSION-linux-$arch
		install -m 755 "$BUILD_DIR/linux_$arch/$program" "$out/$name"
		"$GO" tool -modfile=tools.mod cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$VERSION" -output "$out/$name.cdx.json" "$out/$name"
	done
done
install -m 644 CHANGELOG.md "$BUILD_DIR/LICENSES" "$out/"
find "$out" -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | (cd "$out" && xargs -d '\n' sha256sum) >"$BUILD_DIR/sums"
install -m 644 "$BUILD_DIR/sums" "$out/SHA256SUMS"
echo "release: $VERSION in $out"
