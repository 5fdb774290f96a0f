# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The version that localcluster's Kubernetes components report.
KUBERNETES_VERSION := v1.37.1
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

GO ?= go
BIN := bin
# ONCE=1 stops "make run" after the examples.
ONCE ?=

# NVIDIA's functions are looked up when they are called. Systems whose linker
# does it at the start (Ubuntu) would refuse to start what has no NVIDIA driver.
LAZY := -extldflags=-Wl,-z,lazy

.PHONY: help
help: ## Show what each target does
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# NVIDIA's header calls some of its functions deprecated, and its bindings call them.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
export GO
# Debug information is for debuggers only: without it everything compiles a fifth faster.
# (To debug a program, build it with "go build".) Stack traces don't need it.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

# What the race detector is for. It compiles all that is linked once more and runs
# several times slower, so it leaves out what has no goroutines (pkg, bench), what links
# Kubernetes' own programs, and the tests with clusters: these run programs that are
# built with it.
RACE := . ./dradriver/... ./kubectl-gputask/... ./localcluster/... ./nodeagent/... ./remediation/... ./rescheduler/... ./scheduler/...
# "go test" compiles packages without tests, too: one of them is all of Kubernetes.
WITH_TESTS := -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
# The test that takes longest starts first; the others run beside it.
NO_RACE := ./test/scheduler ./test/... ./bench/... ./hack/... ./localcluster/stages ./nodeagent/kubelet/deviceplugin/kubelettest ./pkg/...
# "make verify" runs all of vet.
TEST := $(GO) test -vet=off -timeout 30m -ldflags "-s -w $(LAZY)"

# compile PROGRAM,HINT builds a program with the arguments that follow; the hint is said
# when there is none yet.
compile = @hack/compile.sh $(1) "$(if $(wildcard $(BIN)/$(1)),,$(2))" -o $(BIN)/$(1)

.PHONY: build
build: ## Build gpu-controller, gpu-scheduler, nodeagent, dradriver, kubectl-gputask and localcluster into bin/ (the first time takes minutes: it compiles Kubernetes)
	$(call compile,gpu-controller,downloads and compiles client-go) \
		-ldflags "-s -w -X main.version=$(VERSION)" .
	$(call compile,nodeagent) \
		-ldflags "-s -w $(LAZY) -X main.version=$(VERSION)" ./nodeagent
	$(call compile,dradriver) \
		-ldflags "-s -w $(LAZY) -X main.version=$(VERSION)" ./dradriver
	$(call compile,kubectl-gputask) \
		-ldflags "-s -w -X main.version=$(VERSION)" ./kubectl-gputask
	$(call compile,gpu-scheduler,downloads and compiles kube-scheduler) \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" ./scheduler
	$(call compile,localcluster,downloads and compiles etcd and all of Kubernetes; about 5 minutes on 2 cores) \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" ./localcluster

.PHONY: run
run: build ## Start a local Kubernetes with simulated GPUs and run the examples (ONCE=1 stops after them)
	$(BIN)/localcluster up --examples $(if $(ONCE),--once)

.PHONY: test
test: build-schedulerperf ## Run all tests, those on a real API server included
	$(TEST) -race $$($(GO) list $(WITH_TESTS) $(RACE) | grep --invert-match --line-regexp --fixed-strings "$$($(GO) list $(NO_RACE))")
	$(TEST) $(NO_RACE)

.PHONY: test-upstream
test-upstream: build-schedulerperf ## Run the integration tests of Kubernetes' scheduler_perf with every profile of ours, and compare with the stock scheduler (17 minutes)
	$(TEST) -count=1 -v ./test/upstream -all $(ARGS)

# What test/upstream and bench/schedulerperf run. Naming its file leaves it out of
# everything else.
.PHONY: build-schedulerperf
build-schedulerperf: build
	$(GO) test -c -vet=off -ldflags "-s -w" -o $(BIN)/schedulerperf.test test/schedulerperf/program_test.go

.PHONY: test-gpu
test-gpu: ## On a machine with NVIDIA GPUs, as root: read them and their processes, time polls and calls of the driver, describe them by CDI as nvidia-ctk does, and set limits by MPS and the driver (each skipped with the reason if something lacks)
	$(GO) test -count=1 -run '^TestHardware' -v -ldflags "$(LAZY)" ./nodeagent/hardware/nvml ./nodeagent/kubelet/cdi/nvidia ./nodeagent/kubelet/mps

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster, for the inner loop (under a minute when all is compiled)
	$(TEST) $$($(GO) list $(WITH_TESTS) ./... | grep --invert-match /test/)

.PHONY: bench-nodeagent
bench-nodeagent: build ## Measure a poll and a labelling of the node agent
	$(GO) run -ldflags "$(LAZY)" ./bench/nodeagent --localcluster=$(BIN)/localcluster

.PHONY: bench-controller
bench-controller: build ## Measure gpu-controller with 50,000 tasks and rewrite docs/benchmarks.md (ARGS=--baseline=PROGRAM compares another version; 10 minutes)
	$(GO) run ./bench/controller --report=docs $(ARGS)

.PHONY: bench-placement
bench-placement: ## Measure how placing scales with the number of nodes
	$(GO) test -run '^$$' -bench . ./bench/placement

.PHONY: bench-openb
bench-openb: ## Replay the openb traces in the folder DATA and rewrite docs/benchmarks.md (35 minutes)
	$(GO) run ./bench/openb --report=docs --data=$(DATA) --seeds=10 $(if $(PARTS),--parts=$(PARTS))

.PHONY: bench-pipeline
bench-pipeline: build ## Measure from GPUTasks to running Pods on 1,000 simulated nodes and rewrite docs/benchmarks.md (ARGS=--scale=0.1 for less)
	$(GO) run ./bench/pipeline --report=docs --results=$(BIN)/pipeline.jsonl $(ARGS)

.PHONY: bench-rescheduler
bench-rescheduler: ## Make room for large tasks on the openb cluster (its files are in the folder DATA) in several ways and rewrite docs/benchmarks.md (10 minutes)
	$(GO) run ./bench/rescheduler --report=docs --data=$(DATA) --seeds=10 $(ARGS)

.PHONY: bench-queue
bench-queue: ## Replay the Philly trace TRACE with all ways to serve a queue and rewrite docs/benchmarks.md (half an hour on 2 idle cores; ARGS='--seeds=1 --sizes=80' for less)
	nice $(GO) run ./bench/queue --trace=$(TRACE) --seeds=4 --report=docs $(ARGS)

.PHONY: bench-dashboard
bench-dashboard: build ## Measure what the page costs on 1,000 nodes with 2,000 changing Pods, with 50 viewers and in a browser, and rewrite docs/benchmarks.md (10 minutes; needs Chromium, or ARGS=--chromium=)
	$(GO) run ./bench/dashboard --report=docs $(ARGS)

.PHONY: bench-scheduler-scale
bench-scheduler-scale: ## Measure the scheduler's planner with 10,000 nodes, 100,000 Pods and 1,000 waiting gangs and rewrite docs/benchmarks.md (ARGS=--part=10 for less)
	$(GO) test -c -o $(BIN)/schedulerscale.test ./scheduler/planner
	$(GO) run ./bench/schedulerscale --report=docs $(ARGS)

.PHONY: bench-schedulerperf
bench-schedulerperf: build-schedulerperf ## Run workloads of Kubernetes' scheduler_perf with our build of the scheduler and with its own, and rewrite docs/benchmarks.md
	$(GO) run ./bench/schedulerperf --report=docs $(ARGS)

.PHONY: verify
verify: lint ## Check formatting, lint, import rules, generated code, manifests, the built page (needs Node.js) and go.mod
	hack/verify-import-rules.sh
	hack/verify-codegen.sh
	hack/verify-web.sh
	hack/verify-mod.sh

.PHONY: verify-empty-module-cache
verify-empty-module-cache: ## Check that all that is compiled from source can be downloaded first
	hack/verify-empty-module-cache.sh

.PHONY: lint
lint: ## Run the linters and check the formatting
	hack/golangci-lint.sh run ./...

.PHONY: generate
generate: ## Generate deep copies, clients, informers, listers and the CRDs from pkg/apis, and the reference of kubectl-gputask
	hack/update-codegen.sh

.PHONY: web
web: ## Build the page of "kubectl gputask dashboard" from its TypeScript (needs Node.js)
	hack/update-web.sh

.PHONY: clean
clean: ## Delete what was built
	rm -rf $(BIN)
