# The verbs of this project. Each sets up what it needs in .venv; `make` alone lists them.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench bench-check conformance interop fuzz mutate clean peers

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## install the project and its checks into .venv (quick when nothing changed)

demo: setup ## watch a server and a client do the planner walk in memory, over stdio and over HTTP, in both eras
	@$(PY) demo/walk.py

test: setup ## run the tests (those against other implementations: make interop)
	$(PY) -m pytest -n 2 -q

lint: setup ## check format, style, types, layers and size budgets
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) tools/budgets.py
	$(VENV)/bin/lint-imports --no-logo
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright

bench: peers ## measure side by side with other implementations and write bench/RESULTS.md
	$(PY) -m bench

bench-check: peers ## the same, failing on a missed budget
	$(PY) -m bench --check

interop: peers ## run the tests against other implementations
	$(PY) -m pytest tests/interop -q

conformance: setup ## run the official conformance suite, judged strictly (needs the npm registry the first time)
	$(PY) -m tests.conformance.run

fuzz: ## fuzz the parsers with coverage guidance (not built yet)
	@echo "fuzz: not built yet; nothing was run. The property tests of the parsers are part of 'make test'."

mutate: ## switch off each guard in turn and see a test fail (not built yet)
	@echo "mutate: not built yet; nothing was run."

clean: ## remove what the verbs made: .venv, .peers, caches, builds
	rm -rf $(VENV) .peers .hypothesis .pytest_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

peers: setup
	$(PY) -m bench.peers

# A folder that holds no working pip (a broken or interrupted set-up) is made anew.
$(STAMP): pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "jackfield needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not there)." >&2; \
		echo "Name one that is: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -e .
	@touch $@
