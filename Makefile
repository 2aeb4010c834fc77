# Everything installs into .venv from pyproject.toml and constraints.txt; only Python 3.11+ and make are needed.
PYTHON ?= python3
BIN := .venv/bin
KEEP ?=
# Each process has a Temporal server of its own; most of these tests' time is waiting.
PARALLEL := -n 4 --dist worksteal
# A busy machine can make a test miss its time: what fails beside others runs once more, by itself, and fails if it fails then.
AGAIN := --last-failed --last-failed-no-failures none
PURE := tests/loop tests/context tests/contract tests/permissions tests/authoring tests/registry

# The tests start many programs: without bytecode, each would compile Temporal's SDK and all of Wakeful again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help:  ## Show what there is.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(BIN)/.ready  ## See a durable agent run from end to end (KEEP=1 leaves the web UI open).
	$(BIN)/wakeful demo $(if $(KEEP),--keep)

dev: $(BIN)/.ready  ## A server, its web UI and a worker, until Ctrl-C.
	$(BIN)/wakeful dev

test: $(BIN)/.ready  ## Run the tests: the pure ones with their coverage, then those that need a Temporal server.
	$(BIN)/python -m pytest -q -n 2 --cov --cov-report=term:skip-covered $(PURE)
	$(BIN)/python -m pytest -q $(PARALLEL) $(foreach folder,$(PURE),--ignore=$(folder)) \
		|| { test $$? = 1 && $(BIN)/python -m pytest -q $(AGAIN); }

restless: $(BIN)/.ready  ## Run the workflow tests again, continuing as new after every fact.
	$(BIN)/python -m pytest -q $(PARALLEL) -m "restless and not faults" \
		|| { test $$? = 1 && $(BIN)/python -m pytest -q $(AGAIN) -m "restless and not faults"; }

integration: $(BIN)/.ready  ## Run the tests that need other software or a fresh environment; says what it skips.
	$(BIN)/python -m pytest -m integration -rs \
		|| { test $$? = 1 && $(BIN)/python -m pytest -m integration -rs $(AGAIN); }

bench: $(BIN)/.ready  ## Measure against a hand-written workflow (QUICK=1 for about a minute).
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

check: $(BIN)/.ready  ## Format, lint, types, import layers and documentation.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -m check tests/docs  # after mypy, which leaves it a cache
	$(MAKE) --no-print-directory docs

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(BIN)/.ready  ## Build the documentation into site/; a broken link, or a page that is not in mkdocs.yml, fails.
	$(BIN)/python -m mkdocs build --strict  # not --quiet: it hides warnings from --strict, too

format: $(BIN)/.ready  ## Format the code and sort its imports.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

faults: export WAKEFUL_HISTORIES ?= 10000
faults: export WAKEFUL_BUDGET_TREES ?= 1000
faults: export WAKEFUL_READER_RUNS ?= 200
faults: export WAKEFUL_EVENT_ORDER_RUNS ?= 20
faults: $(BIN)/.ready  ## Run the long runs under faults and more random histories (shorter: WAKEFUL_FAULT_TREES=40 WAKEFUL_FAULT_KILLS=5 WAKEFUL_MIXED_SECONDS=10 WAKEFUL_BUSY_SECONDS=30).
	$(BIN)/python -m pytest -q -n 2 -o time_limit=3600 tests/loop/machine/test_properties.py tests/loop/subagents/test_budgets.py tests/history/test_random_threads.py
	$(BIN)/python -m pytest -q -o time_limit=3600 tests/workflows/test_event_order.py
	$(BIN)/python -m pytest -s -m faults

simulate: $(BIN)/.ready  ## Run random schedules on a simulated Temporal (SCHEDULES=10000), or explain one (SEED=17).
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SCHEDULES),--schedules $(SCHEDULES)) \
		$(if $(FIRST),--first $(FIRST)) $(if $(STEPS),--steps $(STEPS)) $(if $(JUDGE),--judge $(JUDGE))

picture: $(BIN)/.ready  ## Take the pictures in docs/ again (needs chromium, and npm for diagrams).
	$(BIN)/python docs/pictures/take.py
	$(BIN)/python -m docs.pictures.chat
	$(BIN)/python -m docs.pictures.draw
	test -z "$(WAKEFUL_PHOENIX)" || $(BIN)/python -m docs.pictures.trace

constraints: $(BIN)/.ready  ## Pin the newest versions that resolve together.
	$(BIN)/uv pip compile -q --universal --all-extras --no-annotate --no-header --no-emit-index-url \
		--upgrade pyproject.toml -o constraints.txt

clean:  ## Remove the environment and every cache.
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage dist build

$(BIN)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Wakeful needs Python 3.11 or newer; set PYTHON=…")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -q wakeful workflows activities
	touch $@

.PHONY: help demo dev test restless integration bench check docs format faults simulate picture constraints clean
