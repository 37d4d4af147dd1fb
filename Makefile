# Nexus: what a newcomer types. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup run test chaos coverage check format bench bench-streamer bench-pipeline packages lock clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More words for the program that a target starts: make test ARGS="-k kcat -x"
ARGS ?=
# Test processes; each has a broker of its own.
WORKERS ?= 2

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

run: setup ## Start broker, collector and a simulated fleet on ./data
	@tools/run $(ARGS)

packages: ## Install the Debian packages that some tests use, where allowed
	@tools/test-packages

test: setup packages ## Run every test except the long ones
	$(BIN)/python -m pytest -m "not chaos" -n $(WORKERS) $(ARGS)

chaos: setup packages ## Run the long fault and load tests
	$(BIN)/python -m pytest -m chaos $(ARGS)

coverage: setup packages ## Run the tests and report what they do not reach
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

bench: setup ## Measure the broker, with brokers of its own
	$(BIN)/python bench/broker.py $(ARGS)

bench-streamer: setup ## Measure the streamer, with a broker of its own
	$(BIN)/python bench/streamer.py $(ARGS)

bench-pipeline: setup ## Measure the pipeline, with a broker of its own
	$(BIN)/python bench/pipeline.py $(ARGS)

lock: ## Pin the newest allowed Python packages anew (needs uv)
	uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal \
		--upgrade --python-version 3.11 pyproject.toml --group dev -o requirements.lock

clean: ## Remove .venv, caches and reports; never ./data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf .coverage .coverage.* htmlcov build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
