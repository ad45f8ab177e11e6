# Two commands are enough: `make demo` speaks, `make test` tests. Both make .venv if it is missing
# and bring it up to date when pyproject.toml or constraints.txt has changed.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# Each test process computes on one thread; on a shared core more threads only wait for each other.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

SENTENCE := Hello, this is a small voice that was trained from scratch. It speaks on your own machine.

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-gpu format references clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED)  ## speak a sentence with the bundled voice into demo.wav
	$(BIN)/chattts say "$(SENTENCE)" -o demo.wav

test: $(INSTALLED_DEV)  ## lint, types and the quick tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -m "not slow and not gpu and not peer"

test-slow: $(INSTALLED_DEV)  ## the long tests
	$(PYTEST) -m "slow and not gpu and not peer"

test-gpu: $(INSTALLED_DEV)  ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

format: $(INSTALLED_DEV)  ## mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

references: $(INSTALLED_DEV)  ## make the reference audio of the regression tests again
	$(BIN)/python -m tests.make_references

clean:  ## remove the environment, builds, caches and demo.wav
	rm -rf $(VENV) build dist *.egg-info demo.wav demo.png
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment without pip is worse than none: the next call would take it for a good one.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo 'Python 3.10 or newer is needed, and $(PYTHON) is not; name one, like this:' >&2; \
	  echo '  make $(MAKECMDGOALS) PYTHON=/path/to/python3.12' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(INSTALLED)
