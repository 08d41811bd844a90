# Nodeless. `make help` lists the targets.
SHELL := /bin/bash
GO ?= go
BIN := bin/nodeless
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/nodeless/nodeless/cmd/internal/program.Version=$(VERSION)
# Without cgo and with -trimpath all builds, tests and images share one build cache, programs are static, and Go's own linker
# links them, several times faster than gcc's.
export GOFLAGS ?= -buildvcs=false -trimpath
export CGO_ENABLED ?= 0

.PHONY: page lint-page screenshots bench-views bench-podvm mishaps faults mutants help viewer up down build test test-deps generate generate-api generate-cli generate-terraform lint oracle bench bench-engine bench-traces bench-growth bench-sim bench-pareto bench-scale bench-consolidation bench-controller conformance conformance-node conformance-performance race fuzz image chart release clean FORCE

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: build ## build, then run a cluster on this machine with a demo: pods are created, nodes are launched; Ctrl-C stops it
	@examples/fargate-image $(BIN) >/dev/null || true # prints what is missing for microVMs
	@$(BIN) up --demo

down: build ## stop a cluster that runs in the background
	@$(BIN) down

# The page that `nodeless web` serves, bundled from view/web/page with libraries from npm; without npm the program is built with only /lite.
PAGE := view/web/dist/index.html
page: $(PAGE) ## build only the page

$(PAGE): $(shell find view/web/page/src -type f) view/web/page/package-lock.json scripts/page tools/go.mod
	@scripts/page

# Pictures of a made-up cluster and of a real one, for the documentation.
screenshots: test-deps build ## regenerate the pictures in docs/pictures and the README's animation
	@mkdir -p bin/pictures docs/pictures
	@SCREENSHOTS=$(CURDIR)/bin/pictures $(GO) test ./view/web -count=1 -run 'TestAPerson|TestPictures'
	@SCREENSHOTS=$(CURDIR)/bin/pictures NODELESS_BINARY=$(CURDIR)/bin/nodeless $(GO) test ./lab/stories -count=1 -timeout 20m -run 'TestThePageShows|TestTheReadmesFilm'
	@$(GO) run ./lab/apng/small docs/pictures bin/pictures/{cluster,nodes,pools,real-pending,real-whatif,real-addresses,sizes-desk,sizes-phone}.png
	@cp bin/pictures/consolidation.png docs/pictures/

lint-page: $(PAGE) ## type-check the page
	@cd view/web/page && npm ci --ignore-scripts --no-audit --no-fund >/dev/null 2>&1 && node_modules/.bin/tsc -p .

build: $(BIN) ## build bin/nodeless

SOURCES := go.mod go.sum $(shell find api catalog cloud cmd controller engine examples explain internal lab/sim microvm migrate plane region roll view -type f -not -path '*/testdata/*' -not -path '*/view/web/dist/*' -not -path '*/node_modules/*' -not -name '*_test.go' 2>/dev/null)

# With a cold build cache the embedded control plane (etcd, kube-apiserver, …) takes minutes to compile: the script says so
# at once, and prints progress.
$(BIN): $(SOURCES) $(PAGE)
	@scripts/build $(BIN) '$(LDFLAGS)'

# The same program without the embedded control plane, a fifth of the size: what a cluster's controller runs (ADR 9).
bin/nodeless-controller: $(SOURCES) $(PAGE)
	@scripts/guest-agent
	$(GO) build -tags noplane -ldflags '$(LDFLAGS)' -o $@ ./cmd/nodeless

# release is a separate module, since it compiles Helm.
bin/release: FORCE
	@$(GO) build -C release -o $(CURDIR)/$@ .

image: bin/release $(PAGE) ## the controller's OCI image for amd64 and arm64 in bin/dist/image, with SBOM and provenance (ARGS="-arch amd64")
	@scripts/guest-agent
	@bin/release image $(ARGS)

chart: bin/release ## package the Helm charts nodeless and nodeless-crd into bin/dist, with a base for Kustomize
	@bin/release chart $(ARGS)
	@bin/release kustomize $(ARGS)

release: bin/release $(PAGE) ## everything that users install, in bin/dist: image, charts, archives for Linux and macOS, krew manifest, notes, checksums (ARGS="-version 1.0.0")
	@scripts/guest-agent
	@for what in image chart kustomize archives notes; do bin/release $$what $(ARGS) || exit; done

test: test-deps build bin/golangci-lint bin/nodeless-controller bin/conformance-controller bin/conform ## all tests: units, real API server, user stories through the binary, part of Karpenter's suite
	@scripts/test

test-deps:
	@scripts/test-deps

generate: ## regenerate generated files (downloads the price data module, about 96 MB)
	$(GO) -C catalog/generate run -mod=mod .
	$(MAKE) generate-api generate-cli generate-terraform

generate-cli: $(BIN) ## regenerate docs/cli.md, the reference of all commands
	@$(BIN) reference > docs/cli.md

generate-terraform: ## regenerate the policies of the Terraform module
	@$(GO) run ./cloud/aws/iampolicy/generate > deploy/terraform/iam.tf.new && mv deploy/terraform/iam.tf.new deploy/terraform/iam.tf

generate-api: ## regenerate the deep copies and definitions of our own kinds
	$(GO) build -C tools -o $(CURDIR)/bin/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen
	bin/controller-gen object crd paths=./api/... output:crd:dir=api/crds

lint: bin/golangci-lint ## run golangci-lint (the first time built from source, which takes some minutes)
	bin/golangci-lint run ./...

bin/golangci-lint: tools/go.mod tools/go.sum
	$(GO) build -C tools -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

oracle: ## test the rules against kube-scheduler's own plugins: make oracle N=1000000 [SEED=1]
	ORACLE_N=$(or $(N),100000) ORACLE_SEED=$(SEED) $(GO) test ./lab/oracle -count=1 -timeout 6h -v -run RulesAgree

viewer: ## test that eks-node-viewer, in a separate module, reads our nodes as it reads Karpenter's
	@$(GO) test -C lab/viewer -count=1 .

bench-views: $(PAGE) ## a frame of nodeless top and the page's first paint at 100, 1,000 and 5,000 nodes, its memory after an hour of changes, and eks-node-viewer's frame of the same clusters
	@$(GO) test ./view/web -run '^$$' -bench . -benchmem
	@BENCH=1 $(GO) test ./view/web -count=1 -run 'TestFirstPaint|TestThePagesMemory' -v | grep -v '^[=-]'
	@$(GO) test ./view/tui -run '^$$' -bench . -benchmem
	@$(GO) test -C lab/viewer -run '^$$' -bench Frame -benchmem -timeout 30m .

bench: build bin/nodeless-controller ## latency and scale of the main job, and the engine's benchmarks
	@scripts/bench

# lab/bench is a separate module, since it compiles Karpenter's scheduler. Options in ARGS; bin/bench engine -h lists them.
bin/bench: FORCE
	@$(GO) build -C lab/bench -o $(CURDIR)/$@ .

bench-engine: bin/bench ## the engine against Karpenter's scheduler, about an hour; less with ARGS="-catalogues cmr -pods 1000"
	@bin/bench engine $(ARGS)

bench-traces: bin/bench ## cost above the proven minimum on public traces (ARGS="-folder DIR" names their folder)
	@bin/bench traces $(ARGS)

bench-growth: bin/bench ## time and memory of the engine from 10,000 to 1,000,000 pods and 100 to 10,000 nodes
	@bin/bench growth $(ARGS)

bench-sim: bin/bench ## cost over time, pod moves and waits on public traces against the compatible baseline (ARGS="-for 48h -trace alibaba")
	@bin/bench sim $(ARGS)

bench-pareto: bin/bench ## cost versus moves by move price on generated workloads and public traces (ARGS="-seeds 2 -for 1h -traces vms -max-vcpu 32 -cores 2")
	@bin/bench pareto $(ARGS)

bench-consolidation: ## every what-if of a cluster of 1,000 nodes and 20,000 pods in one call, on one core
	@$(GO) test ./engine -run XXX -bench 'EveryWhatIf/^$(or $(N),1000)_' -benchtime 1x -cpu 1 -timeout 2h

bench-scale: ## a simulated day of churn on 300,000 pods and at least 10,000 nodes on one core: seconds and peak memory (N=30000 or 3000 pods, HOURS=2; PIECES=1: consolidation searches a tenth of the nodes at a time)
	@PIECES=$(PIECES) $(GO) test ./lab/sim -run XXX -bench 'ADay/^$(or $(N),300000)_pods_$(or $(HOURS),24)h$$' -benchtime 1x -cpu 1 -timeout 6h

# On virtual time, with an API server in memory: see docs/what-to-expect-at-1000-nodes.md.
SIZES := 1000,5000,15000
bench-controller: ## what the whole controller uses at 1,000, 5,000 and 15,000 nodes with 20 pods each: CPU, memory, calls, watch events (N=1000; PROFILES=DIR keeps CPU profiles)
	@$(GO) test ./lab/faults -count=1 -cpu 1 -v -timeout 6h -run LargeCluster -args -nodes $(or $(N),$(SIZES)) $(if $(PROFILES),-profiles $(PROFILES))

bench-podvm: test-deps ## microVMs: pod to first output cold and from a template, beside bare QEMU; memory and idle CPU of 100 at once; pods that come and go (N=30 starts each, PODS=50)
	@NODELESS_BENCH=$(or $(N),30) NODELESS_BENCH_PODS=$(or $(PODS),50) $(GO) test ./microvm/sandbox -count=1 -v -timeout 2h -run TestBench

# A story in random order at random times; make test runs it once.
mishaps: build ## kill, delete and terminate at random under load, then check whether anything was lost: make mishaps N=20 [SEED=1]
	@SEED=$(SEED) NODELESS_BINARY=$(CURDIR)/bin/nodeless $(GO) test ./lab/stories -count=$(or $(N),5) -timeout 6h -v -run TestMishapsUnderLoad

# On virtual time, about 3 s of CPU per seed; a failure prints what happened and how to reproduce it.
faults: ## the controller dies at every call in turn while calls fail, lag and lose responses: make faults SEEDS=500 [SEED=1]
	@$(GO) test -v ./lab/faults -count=1 -timeout 12h -run TestWhateverFails -args -seed $(or $(SEED),1) -seeds $(or $(SEEDS),500)

# lab/mutants says how to add one. make test plants a tenth of them, a different tenth each day.
mutants: ## plant faults one at a time and report those that no test detects: make mutants [TENTH=3] [ONLY='cluster: ']
	@$(GO) run ./lab/mutants $(if $(TENTH),-tenth $(TENTH)) $(if $(ONLY),-only '$(ONLY)')

# The small build with the flags with which lab/conformance passes it Karpenter's own instance types and node classes.
bin/conformance-controller: $(SOURCES) $(PAGE)
	$(GO) build -tags noplane,conformance -ldflags '$(LDFLAGS)' -o $@ ./cmd/nodeless

# lab/conformance is a separate module, since it compiles Karpenter's suites. Options in ARGS; bin/conform regression -h lists them.
bin/conform: FORCE
	@$(GO) build -C lab/conformance -o $(CURDIR)/bin/conform .

conformance: build bin/conformance-controller bin/conform ## Karpenter's regression suite, unchanged, against Nodeless; less with ARGS="-focus Drift" or -fast
	@bin/conform regression $(ARGS)

# lab/nodeconformance is a separate module, since it compiles Kubernetes' end-to-end suite.
bin/nodeconform: FORCE
	@$(GO) build -C lab/nodeconformance -o $(CURDIR)/$@ .

conformance-node: build bin/nodeconform ## Kubernetes' own node and conformance specs, unchanged, in microVMs: ARGS='-focus "Ephemeral Containers"', ARGS='-part 3/20'
	@bin/nodeconform $(ARGS)

conformance-performance: build bin/conformance-controller bin/conform ## Karpenter's performance suite against Nodeless, about an hour
	@bin/conform performance $(ARGS)

# lab/race is a separate module, since it compiles the Karpenter AWS provider, which takes some minutes with a cold cache.
bin/karpenter: lab/race/go.mod
	$(GO) build -C lab/race -ldflags '-s -w' -o $(CURDIR)/$@ github.com/aws/karpenter-provider-aws/cmd/controller

bin/race/race: FORCE
	@$(GO) build -C lab/race -o $(CURDIR)/$@ .

race: build bin/nodeless-controller bin/karpenter bin/race/race ## Nodeless and the real Karpenter on separate clusters, in real time: make race ARGS="-workload six-deployments -runs 3" [-workload list]
	@bin/race/race $(ARGS)

T ?= 10m
fuzz: ## run each fuzz target for T (make fuzz T=10m)
	@grep -rHoP '^func \KFuzz\w+' --include='*_test.go' engine lab/scenario microvm | while IFS=: read -r file name; do \
	  $(GO) test "./$$(dirname $$file)" -run '^$$' -fuzz "^$$name$$" -fuzztime $(T) || exit 1; done

clean: ## remove what was built
	rm -rf bin
