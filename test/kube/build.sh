#!/usr/bin/env bash
# Builds the kube-apiserver that the tests run, unless it is built already, and
# prints its path. Its version is that of go.mod beside this file.
set -euo pipefail
cd "$(dirname "$0")"
version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit} $1 == "require" && $2 == "k8s.io/kubernetes" {print $3; exit}' go.mod)
folder=$(cd ../.. && pwd)/.cache/kube-apiserver-$version
binary=$folder/kube-apiserver
if ! test -x "$binary"; then
	started=$SECONDS
	echo "building kube-apiserver $version for the tests, once: 7 to 15 minutes on two cores, kept in $folder" >&2
	mkdir -p "$folder"
	flags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version"
	CGO_ENABLED=0 GOWORK=off nice -n 15 "${GO:-go}" build -trimpath -buildvcs=false -ldflags "$flags" -o "$binary.new" k8s.io/kubernetes/cmd/kube-apiserver &
	build=$!
	trap 'kill $build 2>/dev/null || true' EXIT
	while sleep 5 && kill -0 $build 2>/dev/null; do
		(((SECONDS - started) % 60 >= 5)) || echo "building kube-apiserver $version: $(((SECONDS - started) / 60)) minutes so far" >&2
	done
	wait $build
	mv "$binary.new" "$binary"
	echo "built kube-apiserver $version in $((SECONDS - started)) seconds" >&2
fi
echo "$binary"
