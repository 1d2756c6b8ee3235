# Everything a developer or a first visitor types. Needs make and Python 3.11 or newer; all else is installed into .venv.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

# The interpreter that makes .venv: `make test PYTHON=python3.12`. By default the first one here that is new enough.
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
# Test processes: a number, or auto for one a core.
WORKERS ?= auto
# What the recorder is tested with: a build for the CPU will do, which the index may offer as 2.13.0+cpu.
TORCH ?= torch==2.13.0
# Whose training loops are recorded in tests; what cannot be installed is skipped there, and said.
FRAMEWORKS ?= lightning transformers accelerate peft diffusers torch_geometric
# Tests start hundreds of processes: each would compile all of the source anew.
unexport PYTHONDONTWRITEBYTECODE
# More words for pytest, the benchmarks or the demo: `make test ARGS="-k intervals"`.
ARGS ?=

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1   \2/p' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.core ## show where the time of a step goes, on a real trace that comes with the package
	@$(BIN)/kinetoscope demo --bundled $(ARGS)

# Two tiers. Each test is in one of them (tests/test_tiers.py); properties are in both, with more examples in the second.
FIRST := not slow and not torch
REST := slow or torch or hypothesis
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -rfEs

.PHONY: test
test: $(VENV)/.dev ## what to run before each commit: some minutes; what it skips it says, and why
	@$(PYTEST) -m "$(FIRST)" $(ARGS)

.PHONY: test-all
test-all: $(VENV)/.dev ## what `make test` leaves out: every trace, browser, clusters, stores, torch, more examples
	@{ $(MAKE) --no-print-directory $(VENV)/.torch || echo "torch cannot be installed here: what needs it is skipped"; } & \
		$(MAKE) --no-print-directory test-versions ARGS= || failed=1; wait; exit $${failed:-0}
	@HYPOTHESIS_PROFILE=ci $(PYTEST) -m "$(REST)" $(ARGS)
	@$(BIN)/python -m tests.fuzz 100 60

.PHONY: test-recorder
test-recorder: $(VENV)/.torch ## of that, what records with torch (CPU), which it installs
	@$(PYTEST) -m torch $(ARGS)

.PHONY: test-versions
test-versions: ## reading, with the oldest and the newest dependencies, and Python 3.11 to 3.13
	@WORKERS=$(WORKERS) $(PYTHON) tools/versions.py $(ARGS)

.PHONY: versions
versions: ## the environments of that, installed and compiled, for later
	@$(PYTHON) tools/versions.py --prepare

.PHONY: test-web
test-web: ## types and tests of the page's TypeScript (needs Node.js)
	cd web && npm ci --no-audit --no-fund && npm run check && npm test

.PHONY: fuzz
fuzz: ARGS = 2000
fuzz: $(VENV)/.dev ## mutilated traces, put to every verb: 2,000, or `make fuzz ARGS="20000 7"` (how many, first seed)
	@$(BIN)/python -m tests.fuzz $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.torch ## 200 recorded jobs to which things happen, each beside a plain run (ARGS="500 SEED")
	@$(BIN)/python -m tests.record.chaos $(ARGS)

.PHONY: zoo
zoo: $(VENV)/.torch ## small programs of frameworks, recorded in four ways, and the page on them (ARGS="NAME... --page")
	@$(BIN)/python -m tests.zoo $(ARGS)

.PHONY: bench-recorder
bench-recorder: $(VENV)/.torch ## what recording costs a job, beside torch.profiler
	@$(BIN)/python -m benchmarks.recorder $(ARGS)

# The day a GPU is there, in two halves. The first takes the Python that has torch, and installs nothing: OUT is a folder.
GPU_PYTHON ?= $(PYTHON)

.PHONY: gpu-record
gpu-record: ## on a machine with a GPU: eight minutes of the most valuable, packed into OUT; again: the next eight
	@PYTHONPATH=src:. $(GPU_PYTHON) -m tools.gpu record $(ARGS)

.PHONY: gpu-judge
gpu-judge: $(VENV)/.dev ## without a device: what came back, as one table (ARGS="OUT/gpu-*.tar")
	@PYTHONPATH=. $(BIN)/python -m tools.gpu judge $(ARGS)

.PHONY: check lint types imports pages bundle
check: $(VENV)/.dev ## lint, format, types, who imports whom, generated pages and bundle
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(TOGETHER) types lint imports pages bundle

# The lines of each in one piece, where make can.
TOGETHER := $(if $(filter output-sync,$(.FEATURES)),--output-sync)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

pages: $(VENV)/.dev
	$(BIN)/python docs/generate.py --check

bundle: $(VENV)/.dev
	$(BIN)/python web/generate.py --check

.PHONY: format
format: $(VENV)/.dev ## rewrite the code as `make check` wants it, and the generated pages
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python docs/generate.py
	$(BIN)/python web/generate.py

.PHONY: web
web: $(VENV)/.dev ## the page's front end, from web/ into src/kinetoscope/server/static (needs Node.js)
	$(BIN)/python web/generate.py
	@$(MAKE) --no-print-directory test-web
	cd web && npm run build
	$(BIN)/python web/generate.py --stamp

.PHONY: docs
docs: $(VENV)/.docs ## the documentation with two live reports, as pages under docs/_build/html
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/live.py docs/_build/extra/live
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# Code for this Python and platform, in place of what Numba compiles at a first call: each start takes half of the time
# and half of the memory. It needs a C compiler. ARGS="--native": for this very processor; "--remove": without again.
.PHONY: prebuilt
prebuilt: $(VENV)/.core ## compile ahead of time: a minute, once; a wheel that is built then has it (needs a C compiler)
	@$(PIP) install 'setuptools>=70'
	@$(BIN)/python tools/prebuilt.py $(ARGS)

.PHONY: wheel
wheel: $(VENV)/.wheel ## what is installed from a file, as dist/*.whl, and the source beside it
	@rm -rf dist
	@$(BIN)/python -m build --sdist --wheel --outdir dist . >/dev/null
	@$(BIN)/twine check --strict dist/*
	@echo "pip install dist/kinetoscope-*.whl"

.PHONY: bench
bench: $(VENV)/.dev ## speed and peak memory of reading and of each analysis
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: bench-peers
bench-peers: $(VENV)/.dev ## the same beside HTA, torch-tb-profiler and Perfetto, which it installs from PyPI (and a checkout of TraceLens)
	$(BIN)/python -m benchmarks.peers $(ARGS)

.PHONY: emulators
emulators: $(VENV)/.dev ## what npm has of the object stores that tests run against: S3 and Azure Blob (needs Node.js)
	npm install --no-save --no-audit --no-fund --prefix $(VENV)/emulators azurite@3 s3rver@3

.PHONY: browser
browser: ## the Chromium that the page is tested in, where apt-get can install it (as root)
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium

.PHONY: clean
clean: ## remove .venv, caches, and what was built or downloaded
	rm -rf $(VENV) .venv-versions build dist docs/_build benchmarks/.data benchmarks/.peers web/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# --- .venv: one stamp for what each target needs, renewed when pyproject.toml changes ------------------------------

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Kinetoscope needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "installing kinetoscope into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing kinetoscope and its development tools into $(VENV)"
	@$(PIP) install --editable '.[dev]'
	@$(BIN)/kinetoscope warm  # once, and not by each process of the tests at the same time
	@touch $@ $(VENV)/.core

$(VENV)/.torch: pyproject.toml $(VENV)/.dev
	@echo "installing torch into $(VENV)"
	@$(PIP) install '$(TORCH)'
	@$(PIP) install '$(TORCH)' $(FRAMEWORKS) || echo "without $(FRAMEWORKS)"
	@DS_BUILD_OPS=0 $(PIP) install --no-build-isolation '$(TORCH)' deepspeed || echo "without deepspeed, which is built from source"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo "installing kinetoscope and the documentation tools into $(VENV)"
	@$(PIP) install --editable '.[docs]'
	@touch $@ $(VENV)/.core

$(VENV)/.wheel: | $(BIN)/python
	@$(PIP) install 'build>=1.2' 'twine>=6'
	@touch $@
