# "make help" lists the targets. Each target installs what it needs: Go tools at the versions below into .cache/bin, Debian
# packages by scripts/need (only where a command is missing).

GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION   := v1.5.0
VERSITYGW_VERSION     := v1.8.0

TOOLS := $(CURDIR)/.cache/bin

# What a target needs besides bash, as arguments of scripts/need. Each target names all of it at the start, before anything
# is built.
need_go      := go=https://go.dev/doc/install git
need_couchdb := $(need_go) node=nodejs npm
need_axe     := $(need_couchdb)
need_kinto   := $(need_couchdb) python3 python3:ensurepip=python3-venv

need_demo          := $(need_go) sqlite3 curl
need_demo-s3       := $(need_demo)
need_demo-postgres := $(need_demo) initdb=postgresql
need_demo-couchdb  := $(need_demo) $(need_couchdb)
need_demo-backup   := $(need_demo) $(need_couchdb)
need_demo-kinto    := $(need_demo) $(need_kinto) initdb=postgresql
need_demo-jobs     := $(need_demo) $(need_couchdb) initdb=postgresql
need_race          := $(need_kinto) gcc sqlite3 strace jq curl nginx=nginx-light initdb=postgresql pgbouncer promtool=prometheus
need_test          := $(need_kinto) sqlite3 strace jq curl nginx=nginx-light initdb=postgresql pgbouncer promtool=prometheus mvn=maven javac=default-jdk-headless pip3=python3-pip chromium
need_screenshots   := $(need_axe) chromium
need_release       := $(need_go) ssh-keygen=openssh-client
need_packaging-check := $(need_release) systemd-analyze=systemd
need_release-check := $(need_packaging-check) dpkg rpm mandoc zsh fish
need_bench         := $(need_kinto) nginx=nginx-light wrk curl initdb=postgresql

# The tests' CouchDB server comes from npm; it is installed again when the lock file changes.
COUCHDB_SOURCE := internal/couchtest/server
COUCHDB := $(CURDIR)/.cache/couchtest-$(shell sha256sum $(COUCHDB_SOURCE)/package-lock.json | cut -c 1-12)

# The tests' Kinto server comes from the Python package index; it is installed again when the requirements change.
KINTO_SOURCE := internal/kintotest/server/requirements.txt
KINTO := $(CURDIR)/.cache/kintotest-$(shell sha256sum $(KINTO_SOURCE) | cut -c 1-12)

# kinto.js, a client of Kinto that the tests compare with feedctl, comes from npm.
KINTOJS_SOURCE := internal/kintotest/client
KINTOJS := $(CURDIR)/.cache/kintojs-$(shell sha256sum $(KINTOJS_SOURCE)/package-lock.json | cut -c 1-12)

# axe-core, with which the tests check the accessibility of the console, comes from npm.
AXE_SOURCE := e2e/console/axe
AXE := $(CURDIR)/.cache/axe-$(shell sha256sum $(AXE_SOURCE)/package-lock.json | cut -c 1-12)

# feedctl as it was at the commit that scripts/previous-state names, with which the tests of upgrades run.
PREVIOUS := $(shell cut -c 1-12 scripts/previous-state)

# SQLite's code, C translated into Go, is not instrumented, and neither are the C library and the allocator that it uses:
# instrumented, it would be several times slower, and the detector does not understand C. Its Go callers and callbacks are
# instrumented. With a wider pattern, generic code that other packages share would not be instrumented, and the detector
# would report false races.
RACEFLAGS := $(foreach package,sqlite/lib libc memory,-gcflags=modernc.org/$(package)=-race=false)

# How long each fuzz target runs in "make fuzz".
FUZZTIME := 10s

# The time limit of a package ends hanging tests. "make lint" runs vet. Tests wait for disks, servers and timers more than
# they compute, so three times as many packages are tested at a time as there are processors, and in each, twice as many
# parallel tests.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
TESTFLAGS := -count=1 -timeout 60m -vet=off -ldflags=-w -p $(shell echo $$((3 * $(PROCESSORS)))) -parallel $(shell echo $$((2 * $(PROCESSORS))))

# Flags of the benchmarks: see "go run ./bench -help".
BENCHFLAGS :=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/feedctl
	CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags="-s -w" -o bin/feedctl ./cmd/feedctl

.PHONY: demo
demo: need-demo build ## Publish a data set, consume it into SQLite while the consumer is killed, and compare
	@scripts/demo

.PHONY: demo-s3
demo-s3: need-demo-s3 build versitygw ## The same on an S3 server
	@scripts/with-s3 scripts/demo

.PHONY: demo-postgres
demo-postgres: need-demo-postgres build ## Copy a table of one PostgreSQL database into another while every process is killed, and compare
	@scripts/with-postgres scripts/demo-postgres

.PHONY: demo-couchdb
demo-couchdb: need-demo-couchdb build couchdb ## Replicate a CouchDB database through a feed into SQLite and a second database, live
	@scripts/with-couchdb scripts/demo-couchdb

.PHONY: demo-backup
demo-backup: need-demo-backup build couchdb versitygw ## Back a CouchDB database up into a bucket, and restore two points in time
	@scripts/with-s3 scripts/with-couchdb scripts/demo-backup

.PHONY: demo-kinto
demo-kinto: need-demo-kinto build kinto ## Copy a Kinto collection through a feed into SQLite and a second collection, live
	@scripts/with-postgres scripts/with-kinto scripts/demo-kinto

.PHONY: demo-jobs
demo-jobs: need-demo-jobs build couchdb ## Run 200 jobs on three workers while one is killed and one is frozen, and compare
	@scripts/with-postgres scripts/with-couchdb scripts/demo-jobs

.PHONY: test
test: need-test versitygw couchdb kinto axe previous ## Run all tests: unit, conformance, end to end, interop with Java, exactly once
	CGO_ENABLED=0 scripts/in-memory go test $(TESTFLAGS) ./...

.PHONY: race
race: need-race versitygw couchdb kinto ## Run the tests under the race detector, except those of binaries (needs a C compiler)
	CGO_ENABLED=1 go test -race $(RACEFLAGS) -short $(TESTFLAGS) $$(go list ./... | grep -v -e /interop -e /e2e)

.PHONY: mutants
mutants: ## Remove each rule of the commit protocol, and expect the tests of producer to fail
	CGO_ENABLED=0 go test $(TESTFLAGS) ./producer -run TestMutants -mutants

.PHONY: versitygw
versitygw: $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## Install the S3 server for the tests

.PHONY: previous
previous: $(TOOLS)/previous-$(PREVIOUS) ## Build the previous state of feedctl for the tests of upgrades

.PHONY: couchdb
couchdb: need-couchdb $(COUCHDB) ## Install the CouchDB-compatible server for the tests

.PHONY: kinto
kinto: need-kinto $(KINTO) $(KINTOJS) ## Install the Kinto server and clients for the tests

.PHONY: axe
axe: need-axe $(AXE) ## Install the accessibility checks for the tests

.PHONY: screenshots
screenshots: need-screenshots axe ## Take screenshots of all pages of the console into .cache/screenshots; two are for the README
	CGO_ENABLED=0 go test -count=1 ./e2e/console -run 'TestPages|TestScreenshots' -args -screenshots $(CURDIR)/.cache/screenshots
	mkdir -p docs/images
	cp .cache/screenshots/readme-light.png docs/images/console-light.png
	cp .cache/screenshots/readme-dark.png docs/images/console-dark.png

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: need-bench build versitygw couchdb kinto ## Measure against named alternatives; writes bench.json
	CGO_ENABLED=0 go run ./bench $(BENCHFLAGS)

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION) ## Run gofmt, go vet and golangci-lint; build for other systems
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || { echo "not gofmt'd:" $$files; exit 1; }
	go vet ./...
	$< run ./...
	for system in darwin/arm64 windows/amd64; do GOOS=$${system%/*} GOARCH=$${system#*/} CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /dev/null ./cmd/feedctl; done
	cd packaging && go vet ./... && $< run ./...

.PHONY: release
release: need-release ## Write the release of the last commit into dist; KEY=FILE signs it
	rm -rf dist
	go run -C packaging . -out ../dist $(if $(KEY),-key $(abspath $(KEY)))

.PHONY: packaging-check
packaging-check: need-packaging-check build ## Check the units, the compose file, Kustomize, signatures and lists of modules
	go test -C packaging $(TESTFLAGS) ./...

.PHONY: release-check
release-check: need-release-check ## Make a release twice and compare; install its packages and image, and run them (needs root)
	go test -C packaging $(TESTFLAGS) -run TestRelease . -args -release

.PHONY: install-check
install-check: ## Check that "go install", a build at a tag, and the tag have the same version
	scripts/check-install

.PHONY: vuln
vuln: $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION) ## Check the called code for known vulnerabilities
	scripts/vulncheck $<

.PHONY: generate
generate: ## Write the generated files: docs/cli, metrics and alerts, and the notices of linked modules
	@mkdir -p .cache
	go run ./internal/notices >.cache/notices.txt
	mv .cache/notices.txt cmd/feedctl/notices.txt
	go run ./internal/monitoring .
	$(MAKE) build
	rm -rf docs/cli
	bin/feedctl gen-docs docs/cli

.PHONY: generate-check
generate-check: generate ## Check that the generated files and go.mod are up to date
	go mod tidy -diff
	go mod -C packaging tidy -diff
	@test -z "$$(git status --porcelain -- docs/cli docs/alerts.md docs/metrics.md monitoring cmd/feedctl/notices.txt)" || { \
	  git status --short -- docs/cli docs/alerts.md docs/metrics.md monitoring cmd/feedctl/notices.txt; git --no-pager diff --stat -- docs/cli docs/alerts.md docs/metrics.md monitoring cmd/feedctl/notices.txt; \
	  echo 'generated files are not up to date: run "make generate" and commit'; exit 1; }

.PHONY: ci
ci: ## Run everything that must pass before a change lands
	.ci/run

.PHONY: clean
clean: ## Remove build outputs
	rm -rf bin dist .cache interop/java/target bench.json

need-%:
	@scripts/need $(need_$*)

# A tool's version is part of its file name, so that a new version is installed.
$(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	scripts/go-tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION) $@

$(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION):
	scripts/go-tool golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) $@

$(TOOLS)/versitygw-$(VERSITYGW_VERSION):
	scripts/go-tool github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION) $@

$(TOOLS)/previous-$(PREVIOUS):
	scripts/previous $$(cat scripts/previous-state) $@

$(COUCHDB):
	scripts/npm-ci $(COUCHDB_SOURCE) $@

$(KINTO):
	scripts/pip-venv $(KINTO_SOURCE) $@

$(KINTOJS):
	scripts/npm-ci $(KINTOJS_SOURCE) $@

$(AXE):
	scripts/npm-ci $(AXE_SOURCE) $@
