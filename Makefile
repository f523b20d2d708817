# Everything a developer runs. `make test` is what CI runs.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TAGS    := nomsgpack
LDFLAGS := -s -w -X main.version=$(VERSION)
GO      ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB      := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

.PHONY: a2a-clients build check test test-race test-image agents bench fuzz long race cross tidy-check vuln faults soak load recovery reliability

build: ## the release binary, dist/innerd
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o dist/innerd ./cmd/innerd

include image/agents.mk

a2a-clients: ## install the official A2A clients that tests drive innerd with into the user's cache
	@sh test/a2a/js/install.sh

check: tidy-check cross vuln ## everything but the tests
	$(GO) vet -tags $(TAGS) ./...
	$(GO) run $(STATICCHECK) -tags $(TAGS) ./...
	@out=$$($(GO) run $(GOFUMPT) -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofumpt: $$out"; exit 1; fi

vuln: ## known vulnerabilities in what is shipped, from a pinned copy of the database
	@GO='$(GO)' TAGS='$(TAGS)' DB='$(VULNDB)' TOOL='$(GOVULNCHECK)' sh test/security/vuln.sh

tidy-check:
	$(GO) mod tidy -diff

cross: ## what hosts use builds on their platforms too
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build -tags $(TAGS) -o /dev/null ./cmd/innerd
	GOOS=darwin  $(GO) build -tags $(TAGS) -o /dev/null ./host/... ./events ./events/sse ./adapter/api && GOOS=darwin  $(GO) build -tags $(TAGS) -o /dev/null ./cmd/innerd
	GOOS=windows $(GO) build -tags $(TAGS) -o /dev/null ./host/... ./events ./events/sse ./adapter/api && GOOS=windows $(GO) build -tags $(TAGS) -o /dev/null ./cmd/innerd

test: agents a2a-clients ## all tests, as CI runs them; installs the pinned agents first
	@# those of the image mostly wait for the engine: they run beside all others
	@$(MAKE) --no-print-directory -j2 test-race test-image
	cd test/kubernetes && $(GO) test ./...
	cd test/promql && $(GO) test ./...

test-race: ## all but the image's
	@# the soak takes two minutes of the clock and little else: it begins first
	$(GO) test -race -shuffle=on -timeout 15m -tags $(TAGS) ./test/soak $$($(GO) list -tags $(TAGS) ./... | grep -v -e '/test/image$$' -e '/test/soak$$')

test-image: ## the image's, on the engine of this machine
	$(GO) test -timeout 30m -tags $(TAGS) ./test/image

bench: build ## the numbers of docs/performance.md
	$(GO) run -tags $(TAGS) ./test/bench -binary dist/innerd

REPORTS  ?= $(CURDIR)/dist/reports
FUZZTIME ?= 10m
FUZZJOBS ?= 1
fuzz: ## every fuzz test, FUZZTIME each, FUZZJOBS of them at once
	INNERD_REPORT=$(REPORTS) $(GO) run -tags $(TAGS) ./test/fuzz -tags $(TAGS) -time $(FUZZTIME) -jobs $(FUZZJOBS)

long: agents a2a-clients ## the long forms: 90 s tools, 50 crashes
	INNERD_LONG=1 $(GO) test -race -shuffle=on -timeout 90m -tags $(TAGS) ./...

SOAK = INNERD_REPORT=$(REPORTS) INNERD_SOAK=$@ $(GO) test -tags $(TAGS) -count 1 -timeout 90m -v ./test/soak -binary $(CURDIR)/dist/innerd
faults: agents ## every fault in its long form, and the table of what was delivered and lost; about ten minutes
	cd test/faults && INNERD_LONG=1 INNERD_REPORT=$(REPORTS) $(GO) test -tags $(TAGS) -count 1 -timeout 40m

soak: build ## 30 minutes of everything, with what is lost and what grows
	$(SOAK) -run '^TestSoak$$'

load: build ## 200 runs at once for a minute, three readers each
	$(SOAK) -run '^TestLoad$$'

recovery: build ## 10,000 runs one after another, then kills and starts
	$(SOAK) -run '^TestManyRuns$$'

reliability: ## what the long forms reported, into docs/reliability.md
	$(GO) run ./test/report/fill $(REPORTS) docs/reliability.md
