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
# How long "make fuzz" runs each target, and which of them: a regular expression for "./package Target".
FUZZTIME ?= 1m
FUZZ ?=
# How long "make chaos" injects faults under load, and what happens then.
DURATION ?= 10m
SEED ?= 1

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
# (To debug a program, build it with "go build".) Stack traces don't need it. Without the
# paths of this machine, programs are the same wherever they are built.
#
# Other people's packages, Kubernetes above all, are compiled without inlining: that takes a quarter
# less time. They run a little slower, so what is released or measured is compiled with it.
INLINED :=
programs-% plugin-% localcluster-% bench-%: INLINED := yes
# A compiler needs a quarter of a GiB for most packages. It collects garbage from 1 GiB on and not, as by default,
# from 128 MiB on.
COMPILER := -dwarf=false -d=gcstart=1024
GO_ENVIRONMENT_FLAGS := $(GOFLAGS)
export GOFLAGS = $(GO_ENVIRONMENT_FLAGS) -trimpath -buildvcs=false $(if $(INLINED),'-gcflags=all=$(COMPILER)',\
	'-gcflags=all=$(COMPILER) -l' '-gcflags=std=$(COMPILER)' '-gcflags=falldio.github.io/...=$(COMPILER)')
# What doesn't load NVIDIA's library is linked statically: the programs then run in images with
# nothing else, and tests share what was compiled for them.
STATIC := CGO_ENABLED=0
DYNAMIC := CGO_ENABLED=1

# What the race detector is for. It compiles all that is linked once more and runs
# several times slower, so it leaves out what has no goroutines (pkg, bench), what links
# Kubernetes' own programs, and the tests with clusters: these run programs that are
# built with it.
RACE := . ./dradriver/... ./kubectl-gputask/... ./localcluster/... ./nodeagent/... ./refusals/... ./remediation/... ./rescheduler/... ./scheduler/...
# "go test" compiles packages without tests, too: one of them is all of Kubernetes.
WITH_TESTS := -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
# The tests that take longest start first; the others run beside them.
NO_RACE := ./test/scheduler ./test/realnode ./test/... ./hack/... ./localcluster/stages ./nodeagent/kubelet/deviceplugin/kubelettest ./pkg/...
# "make verify" runs all of vet.
TEST := $(GO) test -vet=off -timeout 30m -ldflags "-s -w $(LAZY)"

# What only measures or tests is no business of those who import our client: modules of their own,
# compiled together with the root's.
MODULES := ./bench/... ./test/dashboard
WORKSPACE := GOWORK=$(CURDIR)/go.all.work

# The arguments of "go build" for each program.
VERSIONED := -s -w -X main.version=$(VERSION)
KUBERNETES := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)
ARGS_gpu-controller := -ldflags "$(VERSIONED)" .
ARGS_gpu-scheduler := -ldflags "$(KUBERNETES)" ./scheduler
ARGS_nodeagent := -ldflags "$(VERSIONED) $(LAZY)" ./nodeagent
ARGS_dradriver := -ldflags "$(VERSIONED) $(LAZY)" ./dradriver
ARGS_kubectl-gputask := -ldflags "$(VERSIONED)" ./kubectl-gputask
ARGS_localcluster := -ldflags "$(KUBERNETES)" ./localcluster
# What the page needs first, while the rest is being compiled for the first time.
ARGS_localcluster-early := -tags early $(ARGS_localcluster)
# The tests' alone: the nodes of localcluster are simulated.
ARGS_kubelet := -ldflags "$(KUBERNETES)" ./test/kubelet

# The folders with packages, and which of them use NVIDIA's library: everything else is compiled
# without cgo, and only once.
FOLDERS := $(GO) list ./... | sed 's|^falldio.github.io/gpu-controller|.|'
NVIDIA := ^./(dradriver|nodeagent)(/|$$)
# This one links the kubelet's device manager, and no GPU.
DEVICE_MANAGER := ./nodeagent/kubelet/deviceplugin/kubelettest

# What is said about a program when it is built for the first time.
HINT_gpu-controller := downloads and compiles client-go
HINT_gpu-scheduler := downloads and compiles kube-scheduler
HINT_localcluster := compiles the rest of Kubernetes
HINT_localcluster-early := downloads and compiles etcd, kube-apiserver and kubectl

# Those that load NVIDIA's library in images. In bin they are for simulated GPUs and don't: with cgo, all
# that they share with the other programs would be compiled once more.
LOAD_NVIDIA := dradriver nodeagent
link = $(if $(filter $(1),$(LOAD_NVIDIA)),$(DYNAMIC),$(STATIC))
# More flags of "go build" for our programs: -overlay= for those with deliberate bugs (test/chaos/mutant).
BUILD_FLAGS :=

# compile FOLDER,PROGRAM,HINT,ENVIRONMENT builds a program into a folder; the hint is said when
# there is none yet.
compile = $(if $(ARGS_$(2)),,$(error there is no program $(2)))@$(4) \
	hack/compile.sh $(2) "$(if $(wildcard $(1)/$(2)),,$(3))" $(BUILD_FLAGS) -o $(1)/$(2) $(ARGS_$(2))

build_program = $(call compile,$(BIN),$(1),$(HINT_$(1)),$(STATIC))

.PHONY: build
build: ## Build gpu-controller, gpu-scheduler, nodeagent, dradriver, kubectl-gputask and localcluster into bin/ (the first time takes minutes: it compiles Kubernetes)
	$(call build_program,gpu-controller)
	$(call build_program,nodeagent)
	$(call build_program,dradriver)
	$(call build_program,kubectl-gputask)
	$(call build_program,gpu-scheduler)
	$(call build_program,localcluster)

# One of them: what tests build otherwise, they build with it (programs.BuildFrom in test/programs).
build-%:
	$(call build_program,$*)

.PHONY: go-env
go-env: ## Print the variables with which go commands share what make has compiled: eval "$(make -s go-env)"
	@echo "export $(STATIC) CGO_CFLAGS='$$CGO_CFLAGS' GOFLAGS=\"$$GOFLAGS\""

.PHONY: run
run: ## Start a local Kubernetes with simulated GPUs and run the examples (ONCE=1 stops after them)
	@BIN=$(BIN) hack/run.sh $(if $(ONCE),--once)

.PHONY: test
test: build-schedulerperf ## Run all tests, those on a real API server included
	$(DYNAMIC) $(TEST) -race $$($(GO) list $(WITH_TESTS) $(RACE) | grep --invert-match --line-regexp --fixed-strings "$$($(GO) list $(NO_RACE))")
	$(STATIC) $(TEST) $(NO_RACE)
	$(WORKSPACE) $(STATIC) $(TEST) $(MODULES)
	@hack/missing.sh

.PHONY: test-upstream
test-upstream: build-schedulerperf ## Run the integration tests of Kubernetes' scheduler_perf with every profile of ours, and compare with the stock scheduler (17 minutes)
	$(STATIC) $(TEST) -count=1 -v ./test/upstream -all $(ARGS)

# What test/upstream and bench/schedulerperf run. Naming its file leaves it out of
# everything else.
.PHONY: build-schedulerperf
build-schedulerperf: build
	$(STATIC) $(GO) test -c -vet=off -ldflags "-s -w" -o $(BIN)/schedulerperf.test test/schedulerperf/program_test.go

.PHONY: build-compat
build-compat: ## Build kube-apiserver, kube-controller-manager and kubelet of the other releases of Kubernetes in test/compat/kubernetes into bin/compat (MINORS=1.34 for one of them)
	hack/build-kubernetes.sh $(MINORS)

.PHONY: test-compat
test-compat: build build-compat ## Run the examples, the manifests and the commands with the other releases of Kubernetes
	COMPAT_REQUIRED=1 $(STATIC) $(TEST) -count=1 -v ./test/compat

.PHONY: chaos
chaos: build ## Run a campaign of faults on a local cluster, and check that nothing happened that must not (DURATION=10m SEED=1; as root a disk is filled, too)
	$(STATIC) $(GO) run ./test/chaos --duration=$(DURATION) --seed=$(SEED) $(ARGS)

.PHONY: chaos-mutants
chaos-mutants: build ## Build the programs with deliberate bugs, and run a campaign with each until it is found (up to 5 minutes each; ARGS=--only=NAME)
	$(STATIC) $(GO) run ./test/chaos --mutants --seed=$(SEED) $(ARGS)

.PHONY: test-gpu
test-gpu: ## On a machine with NVIDIA GPUs, as root: read them and their processes, time polls and calls of the driver, describe them by CDI as nvidia-ctk does, and set limits by MPS and the driver (each skipped with the reason if something lacks)
	$(GO) test -count=1 -run '^TestHardware' -v -ldflags "$(LAZY)" ./nodeagent/hardware/nvml ./nodeagent/kubelet/cdi/nvidia ./nodeagent/kubelet/mps

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster, for the inner loop (under a minute when all is compiled)
	$(TEST) $$($(GO) list $(WITH_TESTS) ./dradriver/... ./nodeagent/...)
	$(STATIC) $(TEST) $$($(GO) list $(WITH_TESTS) ./... | grep --invert-match --extended-regexp '/(test|dradriver|nodeagent)(/|$$)')
	$(WORKSPACE) $(STATIC) $(TEST) ./bench/...

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (1m), one after another: an hour and a quarter (FUZZ='pkg/journal ' runs some, hack/fuzz.sh --list lists them)
	FUZZTIME=$(FUZZTIME) hack/fuzz.sh '$(FUZZ)'

.PHONY: bench-nodeagent
bench-nodeagent: build ## Measure a poll and a labelling of the node agent
	$(WORKSPACE) $(GO) run -ldflags "$(LAZY)" ./bench/nodeagent --localcluster=$(BIN)/localcluster

.PHONY: bench-controller
bench-controller: build ## Measure gpu-controller with 50,000 tasks and rewrite docs/benchmarks.md (ARGS=--baseline=PROGRAM compares another version; 10 minutes)
	$(WORKSPACE) $(GO) run ./bench/controller --report=docs $(ARGS)

.PHONY: bench-placement
bench-placement: ## Measure how placing scales with the number of nodes
	$(WORKSPACE) $(GO) test -run '^$$' -bench . ./bench/placement

.PHONY: bench-openb
bench-openb: ## Replay the openb traces in the folder DATA and rewrite docs/benchmarks.md (35 minutes)
	$(WORKSPACE) $(GO) run ./bench/openb --report=docs --data=$(DATA) --seeds=10 $(if $(PARTS),--parts=$(PARTS))

.PHONY: bench-pipeline
bench-pipeline: build ## Measure from GPUTasks to running Pods on 1,000 simulated nodes and rewrite docs/benchmarks.md (ARGS=--scale=0.1 for less)
	$(WORKSPACE) $(GO) run ./bench/pipeline --report=docs --results=$(BIN)/pipeline.jsonl $(ARGS)

.PHONY: bench-rescheduler
bench-rescheduler: ## Make room for large tasks on the openb cluster (its files are in the folder DATA) in several ways and rewrite docs/benchmarks.md (10 minutes)
	$(WORKSPACE) $(GO) run ./bench/rescheduler --report=docs --data=$(DATA) --seeds=10 $(ARGS)

.PHONY: bench-queue
bench-queue: ## Replay the Philly trace TRACE with all ways to serve a queue and rewrite docs/benchmarks.md (half an hour on 2 idle cores; ARGS='--seeds=1 --sizes=80' for less)
	$(WORKSPACE) nice $(GO) run ./bench/queue --trace=$(TRACE) --seeds=4 --report=docs $(ARGS)

.PHONY: bench-dashboard
bench-dashboard: build ## Measure what the page costs on 1,000 nodes with 2,000 changing Pods, with 50 viewers and in a browser, and rewrite docs/benchmarks.md (10 minutes; needs Chromium, or ARGS=--chromium=)
	$(WORKSPACE) $(GO) run ./bench/dashboard --report=docs $(ARGS)

.PHONY: bench-scheduler-scale
bench-scheduler-scale: ## Measure the scheduler's planner with 10,000 nodes, 100,000 Pods and 1,000 waiting gangs and rewrite docs/benchmarks.md (ARGS=--part=10 for less)
	$(GO) test -c -o $(BIN)/schedulerscale.test ./scheduler/planner
	$(WORKSPACE) $(GO) run ./bench/schedulerscale --report=docs $(ARGS)

.PHONY: bench-schedulerperf
bench-schedulerperf: build-schedulerperf ## Run workloads of Kubernetes' scheduler_perf with our build of the scheduler and with its own, and rewrite docs/benchmarks.md
	$(WORKSPACE) $(GO) run ./bench/schedulerperf --report=docs $(ARGS)

.PHONY: bench-scale
bench-scale: build ## Measure what each process costs on 5,000 simulated nodes with 20,000 Pods, at rest and with 50 Pods per second, and rewrite docs/benchmarks.md (ARGS='--nodes=500 --pods=2000' for less)
	$(WORKSPACE) $(STATIC) $(GO) run ./bench/scale --report=docs $(ARGS)

.PHONY: verify
verify: lint ## Check formatting, lint, import rules, generated code, manifests, the built page (needs Node.js) and go.mod
	hack/verify-import-rules.sh
	$(STATIC) hack/verify-codegen.sh
	hack/verify-web.sh
	hack/verify-mod.sh
	$(MAKE) verify-platforms verify-workflows

# Compiling all of this for another platform takes 20 CPU minutes.
.PHONY: verify-platforms
verify-platforms: ## Check the types of what users run on macOS, Windows and arm64, without compiling it
	$(STATIC) $(GO) run ./hack/typecheck darwin/arm64 . ./kubectl-gputask ./localcluster ./nodeagent ./scheduler
	$(STATIC) $(GO) run ./hack/typecheck windows/amd64 ./kubectl-gputask
	$(STATIC) $(GO) run ./hack/typecheck linux/arm64 . ./dradriver ./kubectl-gputask ./localcluster ./nodeagent ./scheduler

.PHONY: verify-workflows
verify-workflows: ## Check the workflows of the forge
	$(STATIC) $(GO) tool -modfile=go.tools.mod actionlint

.PHONY: verify-empty-module-cache
verify-empty-module-cache: ## Check that all that is compiled from source can be downloaded first
	hack/verify-empty-module-cache.sh

.PHONY: lint
lint: ## Run the linters and check the formatting
	$(STATIC) hack/golangci-lint.sh run $$($(FOLDERS) | grep --invert-match --extended-regexp '$(NVIDIA)') $(DEVICE_MANAGER)
	$(DYNAMIC) hack/golangci-lint.sh run $$($(FOLDERS) | grep --extended-regexp '$(NVIDIA)' | grep --invert-match $(DEVICE_MANAGER))
	$(WORKSPACE) $(STATIC) hack/golangci-lint.sh run $(MODULES)

.PHONY: generate
generate: ## Generate deep copies, clients, informers, listers and the CRDs from pkg/apis, the reference of kubectl-gputask, and the flags in the chart's values
	$(GO) test -vet=off -count=1 -ldflags "-s -w $(LAZY)" -run '^TestTheListOfFlagsIsThatOfTheProgram$$' . ./dradriver ./nodeagent ./scheduler -update
	hack/update-codegen.sh

.PHONY: web
web: ## Build the page of "kubectl gputask dashboard" from its TypeScript (needs Node.js)
	hack/update-web.sh

# The programs that have an image, for ARCHITECTURES, and the compiler for those that load
# NVIDIA's library. On Debian it has this name on every machine.
ARCHITECTURES ?= amd64 arm64
CC_amd64 := x86_64-linux-gnu-gcc
CC_arm64 := aarch64-linux-gnu-gcc
PROGRAMS := $(BIN)/programs
# Where the images will be, and what they are built from.
REGISTRY ?= localhost
RELEASE ?= release
# What users run on their own machines, and the folder from which they will download it.
PLUGIN_PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64
LOCALCLUSTER_PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
URL ?=
# The commit. A tree with changes, files that git doesn't know among them, is not what the commit has.
REVISION = $$(git rev-parse HEAD)$$(test -z "$$(git status --porcelain)" || echo -dirty)
RELEASE_ARGS = --programs=$(PROGRAMS) --architectures="$(ARCHITECTURES)" --downloads=$(BIN)/downloads \
	--plugin-platforms="$(PLUGIN_PLATFORMS)" --localcluster-platforms="$(LOCALCLUSTER_PLATFORMS)" --url=$(URL) \
	--registry=$(REGISTRY) --version=$(VERSION) --revision=$(REVISION) --created=$$(git log -1 --format=%ct) \
	--source=$$(git config --get remote.origin.url || pwd)

.PHONY: programs
programs: $(ARCHITECTURES:%=programs-%)

# for_image PROGRAM,ARCHITECTURE
for_image = $(call compile,$(PROGRAMS)/linux-$(2),$(1),for linux/$(2),GOOS=linux GOARCH=$(2) CC=$(CC_$(2)) $(call link,$(1)))

programs-%:
	$(call for_image,gpu-controller,$*)
	$(call for_image,gpu-scheduler,$*)
	$(call for_image,kubectl-gputask,$*)
	$(call for_image,nodeagent,$*)
	$(call for_image,dradriver,$*)

.PHONY: images
images: programs ## Build the images of all processes into bin/images, without a container engine (ARCHITECTURES=amd64 for less; arm64 needs gcc-aarch64-linux-gnu)
	$(STATIC) $(GO) run ./hack/release $(RELEASE_ARGS) --images-only --out=$(BIN)

# for_users NAME,PLATFORM,PROGRAM
for_users = $(call compile,$(PROGRAMS)/$(1)-$(2),$(3),for $(subst -,/,$(2)),GOOS=$(firstword $(subst -, ,$(2))) GOARCH=$(lastword $(subst -, ,$(2))) $(STATIC))

plugin-%:
	$(call for_users,kubectl-gputask,$*,kubectl-gputask)

localcluster-%:
	$(call for_users,localcluster,$*,localcluster)
	$(call for_users,localcluster,$*,gpu-controller)
	$(call for_users,localcluster,$*,gpu-scheduler)
	$(call for_users,localcluster,$*,nodeagent)
	$(call for_users,localcluster,$*,kubectl-gputask)

.PHONY: release
release: programs $(PLUGIN_PLATFORMS:%=plugin-%) $(LOCALCLUSTER_PLATFORMS:%=localcluster-%) ## Make a release in the folder release: images, manifests, chart, programs for users' machines, checksums, SBOMs and provenance (REGISTRY=registry.example.com/gpu VERSION=v1.2.3; LOCALCLUSTER_PLATFORMS=linux-amd64 saves an hour)
	$(STATIC) $(GO) run ./hack/release $(RELEASE_ARGS) --out=$(RELEASE)

.PHONY: push
push: ## Push the images and the chart of the release to the registry that it was made for
	@mkdir -p $(BIN)
	$(STATIC) $(GO) run ./hack/release/push --release=$(RELEASE) >$(BIN)/pushed
	@cat $(BIN)/pushed

.PHONY: sign
sign: ## Sign what was pushed, and the checksums of the release, with cosign and the identity of the workflow
	cosign sign --yes $$(sed -E 's|^([0-9a-f]+)  (.+)|\2@sha256:\1|' $(BIN)/pushed)
	cosign sign-blob --yes --bundle=$(RELEASE)/SHA256SUMS.sigstore.json $(RELEASE)/SHA256SUMS

.PHONY: publish
publish: ## Publish the files of the release on the forge with gh, for the tag VERSION
	gh release create $(VERSION) --verify-tag --title=$(VERSION) --generate-notes $(if $(findstring -,$(VERSION)),--prerelease) $$(find $(RELEASE) -type f | sort)

.PHONY: clean
clean: ## Delete what was built
	rm -rf $(BIN)
