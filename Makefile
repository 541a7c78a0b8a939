# netclass: `make` lists what can be done.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
TOOL     := $(GO) tool -modfile=tools.mod
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X netclass.dev/version.Version=$(VERSION)

# Debian packages, by the command or file that says a package is there.
DEMO_PACKAGES := ip:iproute2 nft:nftables bird:bird2
TEST_PACKAGES := $(DEMO_PACKAGES) git:git sysctl:procps /usr/lib/frr/bgpd:frr etcd:etcd-server gcc:gcc /usr/include/stdlib.h:libc6-dev debootstrap:debootstrap systemd-nspawn:systemd-container crun:crun

# Packages whose tests run under the race detector: those with goroutines.
RACE := ./routing/engine/... ./routing/drain/... ./routing/speaker/... ./routing/inventory/... ./server/... ./client/...

# Packages that watch real daemons by the clock. They wait for the most part, so
# that two at a time and the others, niced, leave each other time.
REAL := ./test/lab/... ./test/e2e/... ./test/world/... ./test/networks/... ./test/faults/... ./test/interop/... ./test/migrate/... ./test/packaging/... ./test/systemd/...

TEST_ENV = NETCLASS_BIN=$(CURDIR)/bin NETCLASS_GRPCURL=$(CURDIR)/bin/grpcurl

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## static bin/netclassd and bin/netclassctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/netclassd ./cmd/netclassctl

.PHONY: packages
packages: ## dist/: deb and rpm for amd64 and arm64, the same bytes for the same commit
	rm -f dist/netclass_*.deb dist/netclass-*.rpm
	GO='$(GO)' VERSION='$(VERSION)' packaging/deb-rpm/build.sh dist

.PHONY: release
release: ## dist/: all that a tagged version ships, with bills of materials and checksums
	GO='$(GO)' packaging/release/build.sh dist

.PHONY: images
packages: images
images: ## dist/images: for Kubernetes and Talos, amd64 and arm64, without a container engine
	GO='$(GO)' VERSION='$(VERSION)' packaging/image/build.sh dist

.PHONY: demo
demo: demo-packages build ## a three-node cluster on this machine, its classes and its failures (root)
	CGO_ENABLED=0 $(GO) build -o bin/demo ./test/demo
	bin/demo $(DEMO_FLAGS)

.PHONY: test
test: test-packages build bin/grpcurl kube-apiserver systemd-files ## every test, with real kernel, BIRD and FRR (root)
	@echo "testing: what watches real daemons, and what does not in its spare time"
	@export $(TEST_ENV); status=0; logs=.cache/test; rm -rf $$logs; mkdir -p $$logs; \
	{ nice -n 19 $(GO) test -timeout 20m $$($(GO) list ./... | grep -v -x -F -f <($(GO) list $(RACE) $(REAL))) 2>&1 | tee $$logs/rest; } & rest=$$!; \
	{ CGO_ENABLED=1 nice -n 19 $(GO) test -race -timeout 20m $(RACE) 2>&1 | tee $$logs/race; } & race=$$!; \
	$(GO) test -p 2 -parallel 3 -timeout 20m $(REAL) 2>&1 | tee $$logs/real || status=$$?; \
	wait $$rest || status=$$?; wait $$race || status=$$?; \
	test $$status -eq 0 || test/failures.sh $$logs/*; exit $$status

# The images' builder is a module of its own, whose tests read files outside it:
# what go remembers of them says nothing.
.PHONY: test-images
test: test-images bin/netclass-image
test-images:
	$(GO) -C packaging/image test -count=1 ./...

bin/netclass-image: $(wildcard packaging/image/*.go) packaging/image/go.mod packaging/image/go.sum
	CGO_ENABLED=0 $(GO) -C packaging/image build -trimpath -o $(CURDIR)/$@ .

.PHONY: test-systemd systemd-files
test-systemd: test-packages build systemd-files ## the Debian package on Debian 12 and 13 with systemd, in containers (root)
	$(TEST_ENV) $(GO) test -count=1 -v -timeout 10m ./test/systemd/...

systemd-files:
	@GO='$(GO)' test/systemd/prepare.sh

.PHONY: kube-apiserver
kube-apiserver: ## the API server that tests run against (built once, 7 to 15 minutes)
	@test/kube/build.sh >/dev/null

bin/grpcurl: tools.mod tools.sum
	CGO_ENABLED=0 $(GO) build -modfile=tools.mod -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

.PHONY: bench
bench: test-packages build kube-apiserver ## figures, each beside its reference in the same run (root)
	NETCLASS_BIN=$(CURDIR)/bin $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./test/bench/... ./routing/plan/...

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (default 60s)
	@for target in $$(git grep -hoE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | cut -c6- | sort -u); do \
		dir=$$(git grep -lE "^func $$target\(" -- '*_test.go' | head -1 | xargs dirname); \
		echo "== $$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $${FUZZTIME:-60s} ./$$dir; \
	done

.PHONY: lint
lint: ## linters, and whether generated code is current
	$(GO) mod verify >/dev/null
	@files=$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); test -z "$$files" || { echo "not gofmt-ed: $$files"; exit 1; }
	$(GO) vet ./...
	$(TOOL) buf lint
	if git cat-file -e HEAD^:proto 2>/dev/null; then $(TOOL) buf breaking --against '.git#ref=HEAD^'; fi
	$(TOOL) buf generate -o .cache/generated
	@for f in $$(git ls-files '*.pb.go'); do cmp $$f .cache/generated/$$f || { echo "$$f is not current: make generate"; exit 1; }; done
	$(TOOL) golangci-lint run ./...
	linter=$$($(TOOL) -n golangci-lint); cd packaging/image && "$$linter" run ./...

.PHONY: generate
generate: ## generate the code of the protocol buffers
	$(TOOL) buf generate

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .cache

# Install the packages of a list that are not there, without starting their
# services, now or at the next boot: the lab starts what it needs inside its own
# namespaces.
define install-missing
	@missing=(); for p in $(1); do command -v "$${p%%:*}" >/dev/null || test -e "$${p%%:*}" || test -x "/usr/sbin/$${p%%:*}" || missing+=("$${p#*:}"); done; \
	if (($${#missing[@]})); then \
		echo "installing $${missing[*]}"; \
		if ! test -e /usr/sbin/policy-rc.d; then \
			trap 'rm -f /usr/sbin/policy-rc.d' EXIT; \
			printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; \
		fi; \
		apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; \
		dpkg -L "$${missing[@]}" | sed -n 's|.*/systemd/system/\([^/@]*\.service\)$$|\1|p' | xargs -r systemctl disable --quiet 2>/dev/null || true; \
	fi
endef

.PHONY: demo-packages test-packages
demo-packages:
	$(call install-missing,$(DEMO_PACKAGES))
test-packages:
	$(call install-missing,$(TEST_PACKAGES))
