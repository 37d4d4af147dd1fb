# Nexus: what a newcomer types. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup run test chaos coverage check format bench bench-broker bench-replication bench-streamer bench-pipeline bench-gateway bench-postgres bench-live bench-sharing bench-proxy bench-etcd bench-etcd-claims bench-etcd-pipeline bench-etcd-store packages openapi web test-web lock clean
.PHONY: setup-etcd build-nexus run-nexus-pipeline run-nexus-streamer run-nexus-collector run-nexus-api

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More words for the program that a target starts: make test ARGS="-k kcat -x"
ARGS ?=
# Test processes; each has a broker of its own.
WORKERS ?= 2

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.project ## Make .venv with the command `nexus` in it
	@echo "ready: $(BIN)/nexus"

# Two marks, so that an edit of pyproject.toml does not install every package again.
$(VENV)/.packages: requirements.lock tools/make-venv
	@tools/make-venv "$(PYTHON)" "$(VENV)"
	@echo "installing Python packages"
	@$(PIP) install --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.project: $(VENV)/.packages pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## Start everything on ./data, with a dashboard: make run ARGS="--port 8081"
	@[ -n "$$JAVA_HOME" ] || command -v java >/dev/null || \
		tools/apt-install openjdk-17-jre-headless || true # `nexus up` says what is missing
	@tools/build-web || \
		echo "the dashboard could not be built (see above); going on without it" >&2
	@exec $(BIN)/nexus up $(ARGS)

# Where people look who come from pipelines that live in etcd. Environment and ARGS decide as they do
# for the programs; without a word it is the etcd of ETCD_ENDPOINTS, or the one of this machine.
setup-etcd: ## Install etcd and etcdctl, where allowed
	@{ command -v "$${ETCD_BIN:-etcd}" && command -v etcdctl; } >/dev/null || \
		tools/apt-install etcd-server etcd-client
	@"$${ETCD_BIN:-etcd}" --version | head -n 1

build-nexus: setup web ## Make .venv and the dashboard
	@$(BIN)/nexus --version

run-nexus-pipeline: ## Start everything with queue and store in etcd (ETCD_ENDPOINTS, or its own)
	@[ -n "$$ETCD_ENDPOINTS" ] || $(MAKE) --no-print-directory setup-etcd
	@$(MAKE) --no-print-directory run ARGS="--queue etcd --store etcd $(ARGS)"

run-nexus-streamer: setup ## Publish to a queue in etcd (CSV_FILE, or ARGS="--source …")
	@CSV_FILE="$${CSV_FILE:-sim://?hosts=4&gpus=8&seed=1}" MSG_QUEUE_URL="$${MSG_QUEUE_URL:-etcd://}" \
		exec $(BIN)/nexus streamer $(ARGS)

run-nexus-collector: setup ## Collect from a queue in etcd to a store in etcd
	@MSG_QUEUE_URL="$${MSG_QUEUE_URL:-etcd://}" NEXUS_COLLECTOR_STORE="$${NEXUS_COLLECTOR_STORE:-etcd://}" \
		exec $(BIN)/nexus collector $(ARGS)

run-nexus-api: setup web ## Serve the API and the dashboard over a store in etcd
	@MSG_QUEUE_URL="$${MSG_QUEUE_URL:-etcd://}" NEXUS_GATEWAY_STORE="$${NEXUS_GATEWAY_STORE:-etcd://}" \
		exec $(BIN)/nexus gateway $(ARGS)

# What it is made of decides whether there is anything to do, so it is always asked.
web: $(VENV)/.packages ## Build the dashboard into the gateway
	@tools/build-web

test-web: $(VENV)/.packages ## Check the dashboard's types and test its modules
	@tools/build-web run check
	@tools/build-web run test

packages: ## Install the Debian packages that some tests use, where allowed
	@tools/test-packages

test: setup web packages ## Run every test except the long ones
	$(BIN)/python -m pytest -m "not chaos" -n $(WORKERS) $(ARGS)

chaos: setup packages ## Run the long fault and load tests
	$(BIN)/python -m pytest -m chaos $(ARGS)

coverage: setup web packages ## Run the tests and report what they do not reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not chaos" $(ARGS); failed=$$?; \
		$(BIN)/coverage combine --quiet; $(BIN)/coverage html --quiet; $(BIN)/coverage report; \
		exit $$failed

check: setup ## Lint, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Put the code in its usual form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Measure Nexus beside its peers, about an hour: make bench ARGS="--quick"
	@tools/bench-packages
	$(BIN)/python bench/compare.py $(ARGS)

bench-broker: setup ## Measure the broker, with brokers of its own
	$(BIN)/python bench/broker.py $(ARGS)

bench-replication: setup ## Measure what replication costs, ours and Kafka's
	$(BIN)/python bench/replication_ratio.py $(ARGS)

bench-streamer: setup ## Measure the streamer, with a broker of its own
	$(BIN)/python bench/streamer.py $(ARGS)

bench-pipeline: setup ## Measure the pipeline, with a broker of its own
	$(BIN)/python bench/pipeline.py $(ARGS)

bench-gateway: setup ## Measure the gateway, with tables and a PostgreSQL of its own
	$(BIN)/python bench/gateway.py $(ARGS)

bench-postgres: setup packages ## Measure PostgreSQL as a store, with a server of its own
	$(BIN)/python bench/store_postgres.py $(ARGS)

bench-live: setup ## Measure the live stream, with a broker of its own
	$(BIN)/python bench/live.py $(ARGS)

bench-sharing: setup ## Measure share groups, with a broker of its own
	$(BIN)/python bench/sharing.py $(ARGS)

bench-proxy: setup ## Measure the proxy, with a broker of its own
	@command -v wrk >/dev/null || tools/apt-install wrk || true # without it some figures are missing
	$(BIN)/python bench/proxy.py $(ARGS)

bench-etcd: setup setup-etcd ## Measure the queue in etcd, with an etcd of its own
	$(BIN)/python bench/etcd_queue.py $(ARGS)

bench-etcd-claims bench-etcd-pipeline bench-etcd-store: bench-etcd-%: setup setup-etcd
	$(BIN)/python bench/etcd_$*.py $(ARGS)

openapi: setup ## Write the API's description to docs/openapi.json
	$(BIN)/python -m nexus.gateway.openapi_file docs/openapi.json

lock: ## Pin the newest allowed Python packages anew (needs uv)
	uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal \
		--upgrade --python-version 3.11 pyproject.toml --group dev --group bench -o requirements.lock

clean: ## Remove .venv, caches and reports; never ./data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf .coverage .coverage.* htmlcov build dist web/node_modules src/nexus/gateway/static
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
