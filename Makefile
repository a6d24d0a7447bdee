# Everything that is done to this repository. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin
TOOLS   := .cache/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

GOLANGCI         := $(TOOLS)/golangci-lint
GOLANGCI_VERSION := v2.15.0
# Not part of CI: its database is on the network.
GOVULNCHECK_VERSION := v1.9.0

# PKG narrows a target to some packages: make test PKG=./bucket/...
PKG ?= ./...
# RUN narrows it to some tests: make test RUN=TestF01
RUN ?=
# FLAGS are further flags of go test.
FLAGS ?=
# PARALLEL is how many packages are tested at one time.
PARALLEL ?= 2
# BENCH are flags of the benchmark: make bench BENCH="-only steady"
BENCH ?=
# FUZZTIME is how long each fuzz target runs.
FUZZTIME ?= 20s

# IMAGE and VERSION name what `make image` builds.
IMAGE ?= delay-scheduler
# ARCH is the image's.
ARCH ?= $(shell $(GO) env GOARCH)

# Modules beside the main one, which ./... does not see.
MODULES := test/deploy test/containers

# Tests that need no broker must not find a JVM by chance.
NO_JVM := JAVA_HOME=/none

TEST := -p $(PARALLEL) -run '$(RUN)' $(FLAGS)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  KAFKA_VERSION=3.9.1 make test     on another version of Apache Kafka"
	@echo "  make test PKG=./bucket RUN=F01    some packages, some tests"
	@echo "  SOAK_MINUTES=1 make soak          a short one, for trying; SOAK_RATE, SOAK_SEED"

.PHONY: build
build: ## Build bin/scheduler
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN)/scheduler ./cmd/scheduler

.PHONY: image
image: ## Build the image IMAGE:VERSION (nothing is pulled)
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/image/scheduler ./cmd/scheduler
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) \
		-t $(IMAGE):$(VERSION) -t $(IMAGE):latest .

.PHONY: demo
demo: build ## Show the main job in 20 seconds: delays, a kill in the middle, nothing lost
	@$(BIN)/scheduler demo

.PHONY: test
test: $(TOOLS)/broker ## Run all tests, on Apache Kafka where there are Java and Maven
	test/failed.sh $(TOOLS)/broker -- $(GO) test -timeout 15m $(TEST) $(PKG)
ifeq ($(PKG)$(RUN),./...)
	$(MAKE) --no-print-directory test-deploy
endif

.PHONY: test-deploy
test-deploy: ## Check Dockerfile, deploy/, alerts and dashboard against the program
	cd test/deploy && $(GO) test -timeout 9m -run '$(RUN)' $(FLAGS) ./...
	test/deploy/promtool.sh

.PHONY: test-containers
test-containers: ## Run the image, a broker's image and compose.yaml in Docker (as root, on Debian)
	test/containers/run.sh -run '$(RUN)' $(FLAGS)

.PHONY: test-race
test-race: ## Run all that needs no JVM under the race detector
	$(NO_JVM) test/failed.sh $(GO) test -race -timeout 15m $(TEST) $(PKG)

.PHONY: test-cpu
test-cpu: ## Run the packages without a client on 1, 2 and 4 processors
	$(NO_JVM) $(GO) test -cpu 1,2,4 -timeout 15m $(TEST) ./delay ./bucket ./offset ./retry ./scheduler ./forward

.PHONY: test-security
test-security: ## Run the product against a secured Apache Kafka (a part of make test)
	$(GO) test -count=1 -timeout 5m -run '$(RUN)' $(FLAGS) ./test/security

.PHONY: test-clients
test-clients: ## Run the examples of the documents as printed: kcat, Python, Java, Go, Node.js
	test/clients/install.sh
	$(GO) test -tags clients -count=1 -timeout 10m -run '$(RUN)' $(FLAGS) ./test/clients

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what is built (asks the network)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

.PHONY: test-long
test-long: $(TOOLS)/broker ## Run the cases unscaled as well (an hour)
	$(TOOLS)/broker -- $(GO) test -tags long -timeout 2h -p 1 -run '$(RUN)' $(FLAGS) $(PKG)

.PHONY: soak
soak: ## Run a mixed load with kills and outages and judge memory and deliveries (SOAK_MINUTES=20)
	$(GO) test -tags soak -count=1 -v -timeout $$(( $${SOAK_MINUTES:-20} + 10 ))m $(FLAGS) ./test/soak

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME
	@grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file _ name; do \
		echo "$${file%/*} $${name#func }"; \
		$(NO_JVM) $(GO) test -run '^$$' -fuzz "^$${name#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$${file%/*}"; \
	done

.PHONY: bench
bench: ## Measure against must and aim on Apache Kafka, half an hour, write docs/benchmarks.md (BENCH=-quick)
	$(GO) run ./bench -write docs/benchmarks.md $(BENCH)

.PHONY: bench-micro
bench-micro: ## Run the benchmarks beside the code
	$(NO_JVM) $(GO) test -run '^$$' -bench . -benchmem $(FLAGS) $(PKG)

.PHONY: lint
lint: $(GOLANGCI) ## Check style and the import arrows, and that go.mod and formatting are in order
	$(GOLANGCI) run --allow-parallel-runners ./...
	@for module in $(MODULES); do (set -x; cd $$module && $(abspath $(GOLANGCI)) run --allow-parallel-runners ./... && $(GO) mod tidy -diff); done
	$(GO) mod verify >/dev/null
	$(GO) mod tidy -diff

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all files
	$(GOLANGCI) fmt ./...

.PHONY: generate
generate: ## Write the files that are made from others (docs/configuration.md)
	$(GO) generate ./...

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) $(TOOLS)/broker

# The broker around a test run is built, not run by `go run`, so that signals reach it.
.PHONY: $(TOOLS)/broker
$(TOOLS)/broker:
	@mkdir -p $(TOOLS)
	@$(GO) build -o $@ ./internal/testkafka/cmd/broker

# A linter of another version finds other things. What is on the machine serves if it
# is the right one; else it is compiled once, which takes a minute.
.PHONY: $(GOLANGCI)
$(GOLANGCI):
	@mkdir -p $(TOOLS)
	@right() { "$$1" version --short 2>/dev/null | grep -qx '$(GOLANGCI_VERSION:v%=%)'; }; \
	if right $@; then exit 0; fi; \
	installed=$$(command -v golangci-lint || true); \
	if [ -n "$$installed" ] && right "$$installed"; then ln -sf "$$installed" $@; exit 0; fi; \
	rm -f $@; \
	echo "installing golangci-lint $(GOLANGCI_VERSION) into $(TOOLS)"; \
	GOBIN="$(CURDIR)/$(TOOLS)" GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
