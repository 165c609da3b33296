# A fresh machine needs Python >= 3.11, make and a C++ compiler; every target sets up what it needs first.

PYTHON ?= python3
VENV ?= .venv
# Extra arguments for pytest: make test ARGS="-k trace -x"
ARGS ?=
# More workers than cores makes small matrix products many times slower, and each one loads torch anew.
WORKERS ?= 2

# Of `make fuzz`.
FUZZ_SECONDS ?= 60

EXPERIMENTS := $(sort $(basename $(notdir $(wildcard configs/benchmark/*.yaml))))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One thread per worker: the workers already fill the cores, and OpenMP threads that wait for a core spin.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help install demo test check format results-smoke fuzz scatter test-scatter lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## Create .venv with the pinned versions; nothing to do when nothing changed

demo: install  ## Train two small networks, align them, print a table and write a plot
	$(BIN)/python -m align.demo

test: install  ## Run the tests (ARGS="-k name" for some of them)
	$(PYTEST) -n $(WORKERS) -m "not scatter" $(ARGS)

check: install  ## Lint, formatting and types
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy

format: install  ## Repair what `make check` finds, where that can be done automatically
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format

results-smoke: install  ## Make every table of the paper's experiments, tiny, from the embedded digits
	@rm -rf results/smoke
	@for name in $(EXPERIMENTS); do echo "== $$name"; \
	    OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m align.benchmark paper $$name scale=smoke --output results/smoke || exit 1; done

fuzz: install  ## Search for files that break a reader (FUZZ_SECONDS=60)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.reliability fuzz --seconds $(FUZZ_SECONDS)

scatter: $(VENV)/.scatter  ## Compile the optional torch_scatter (minutes, once)

test-scatter: scatter  ## Run the tests that need torch_scatter
	$(PYTEST) -m scatter $(ARGS)

lock:  ## Resolve constraints.txt anew
	PYTHON=$(PYTHON) .ci/lock

clean:  ## Remove .venv, caches and build products
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Build tools come first and pinned, and build isolation is off: it would fetch their newest versions instead.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed: make PYTHON=python3.12 ...")'
	@echo "installing into $(VENV) (a minute or two the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -qq -c constraints.txt pip setuptools hatchling
	@$(PIP) install -qq -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

# Depends on the pins, not on the environment's stamp: an edited pyproject.toml is no reason to compile again.
# No cache: pip would reuse a wheel that was compiled against another torch.
$(VENV)/.scatter: constraints.txt | $(VENV)/.installed
	@echo "compiling torch_scatter (five to ten minutes)"
	@printf '[build_ext]\nparallel = $(WORKERS)\n' > $(VENV)/build.cfg
	@DIST_EXTRA_CONFIG=$(abspath $(VENV)/build.cfg) $(PIP) install -qq -c constraints.txt --no-build-isolation --no-deps --no-cache-dir --force-reinstall torch_scatter
	@$(BIN)/python -W ignore -c 'import torch_scatter'
	@touch $@
