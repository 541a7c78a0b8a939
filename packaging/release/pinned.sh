# Sourced by what builds packages, images and releases: nothing about who builds, and
# where, is to change the bytes. Left are the commit and the version of Go, which the
# bills of materials name.
export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOFIPS140=off GOFLAGS=-buildvcs=false LC_ALL=C TZ=UTC
unset GOEXPERIMENT
umask 022
