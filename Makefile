# Two commands on a fresh machine: `make demo` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
WARM := $(VENV)/.warm

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check lint types bench bench-planner mutants soak lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) $(WARM) ## make .venv with everything; the command line is then .venv/bin/pubweave

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "pubweave needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pubweave needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version): run make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "this Python lacks the venv module: install your system's python3-venv package"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

$(WARM): $(STAMP) $(shell find src/pubweave -path "*_kernels*.py")
	$(BIN)/python -m pubweave.planning.warm_up
	$(BIN)/python -m pubweave.design.warm_up
	@touch $(WARM)

demo: $(STAMP) $(WARM) ## a 20-broker overlay improves itself under traffic: before, predicted, after
	$(BIN)/pubweave demo

test: $(STAMP) $(WARM) lint types ## lint, types and the fast tests (what CI runs)
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(STAMP) $(WARM) lint types ## the same and the slow tests (long simulations, 50 broker processes)
	$(BIN)/python -m pytest -n 2

check: lint types ## lint and types only

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP) ## every benchmark, with ratios against its rival in the same run
	$(BIN)/python -m bench

bench-planner: $(STAMP) $(WARM) ## the planner's bars, met or missed; ARGS="--only 60,rivals --seed 7"
	$(BIN)/python -m bench.bench_planner $(ARGS)

mutants: $(STAMP) ## break protocol code in 100 small ways: which checks notice? ARGS="--count 20"
	$(BIN)/python -m soak.run_mutants $(ARGS)

soak: $(STAMP) $(WARM) ## real brokers under a nemesis, judged from outside: MINUTES=30 STRATEGY=tree|tree_journal|topic_connected|rendezvous|all SEED=1
	$(BIN)/python -m soak.jepsen --minutes $(or $(MINUTES),30) --strategy $(or $(STRATEGY),tree) --seed $(or $(SEED),1) $(ARGS)

lock: ## renew requirements.lock from pyproject.toml (versions and hashes, no addresses)
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade pyproject.toml -o requirements.lock
	rm -rf $(VENV)-lock

clean: ## remove .venv, caches and runs
	rm -rf $(VENV) $(VENV)-lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis runs
	find src tests bench fuzz soak -type d -name __pycache__ -prune -exec rm -rf {} +
