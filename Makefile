# Everything happens in .venv, made with what Python ships. Sentinels in .venv make a second run quick.
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUPPORTED)' >/dev/null 2>&1 && echo $$p && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup up test lint format coverage bench chaos worker searches campaign lock clean

help: ## Show these lines
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.dev ## Install everything into .venv (start nothing)

up: $(VENV)/.runtime ## Install what a bot needs and start it; Ctrl-C stops it
	@$(BIN)/lumia up

test: $(VENV)/.dev ## Run the tests
	@$(BIN)/python -m pytest --numprocesses 4 --dist worksteal

lint: $(VENV)/.dev ## Run ruff, mypy and the architecture contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(VENV)/.dev ## Run the tests and report branch coverage; the core must reach 95 %
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine
	$(BIN)/coverage report
	$(BIN)/coverage report --include='lumia/*' --fail-under=95

bench: $(VENV)/.dev ## Compare with Celery, Dramatiq, Taskiq and Huey on this machine; measure memory, ingress and pkg dev validate in short
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.graph_memory quick
	@$(BIN)/python -m bench.ingress --quick
	@$(BIN)/python -m bench.validate

chaos: $(VENV)/.dev ## Kill processes under load and check that nothing is lost or done twice
	@$(BIN)/python -m bench.chaos
	@$(BIN)/python -m bench.chaos_adapters
	@$(BIN)/python -m bench.upgrades

worker: registry-worker/node_modules/.made ## Install the registry worker's packages, for its tests; needs Node 20 or newer

searches: registry-worker/node_modules/.made ## Measure searches over 10,000 plugins in the registry worker; needs Node 20 or newer
	@cd registry-worker && npm run --silent bench

campaign: $(VENV)/.dev ## Cut off every operation of pkg at every step, and 200 random sequences
	@$(BIN)/python -m bench.pkg_campaign

lock: $(VENV)/.dev ## Write requirements/*.txt anew from requirements/*.in
	@sh requirements/lock.sh

registry-worker/node_modules/.made: registry-worker/package-lock.json
	cd registry-worker && npm ci --no-audit --no-fund
	@touch $@

clean: ## Remove .venv, caches and build output; data/ and config/ stay
	rm -rf $(VENV) bench/.peers build dist *.egg-info htmlcov .coverage .coverage.*
	rm -rf registry-worker/node_modules registry-worker/.wrangler
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 to 3.14 on PATH; install one, or run: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "error: $(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements/build.txt requirements/runtime.txt pyproject.toml setup.py
	$(PIP) install --quiet --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@touch $@
