# Few words, the same on a laptop and in CI. Needs Python 3.11+, pip and make; nothing else.
PYTHON ?= python3
ROUNDS ?= 50
SEEDS  ?= 5000
FROM   ?= 0
SECONDS ?= 600
PEERS  ?= 1
# Twice the two cores of a small machine: many tests wait for processes of their own, so two workers take almost twice as long.
JOBS   ?= 4

BIN    := .venv/bin
CODE    = $(wildcard src tests bench examples)
# Debian's Python may lack ensurepip, so a venv without pip: then the outer pip installs into it.
PIP     = $(shell $(BIN)/python -m pip --version >/dev/null 2>&1 && echo $(BIN)/python -m pip || echo $(PYTHON) -m pip --python $(BIN)/python)
INSTALL = $(PIP) install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup check format test rest test-all demo bench crash simulate soak clean

help: ## show these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: .venv/.dev ## make .venv with everything a developer needs (quick when up to date)

check: .venv/.dev ## format, lint, types, layers, house rules
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml
	$(BIN)/pytest tests/unit/test_house_rules.py tests/unit/test_promises.py

format: .venv/.dev ## rewrite the code the way `make check` wants it
	$(BIN)/ruff check --fix-only --exit-zero $(CODE)
	$(BIN)/ruff format $(CODE)

# Tests marked `alone` measure time, so they get the machine to themselves; exit code 5 is "no such test", which is no failure.
# Bytecode is kept, whatever the shell says: else hundreds of short processes spend most of their time compiling the same files.
TESTS = $(BIN)/pytest -n $(JOBS) --dist worksteal --costs -m "not alone" $(1) && { $(BIN)/pytest --costs -m alone $(1) || [ $$? -eq 5 ]; }
test rest: export PYTHONDONTWRITEBYTECODE =

test: .venv/.dev ## every kind of proof, in minutes on two cores; says at its end what it leaves out
	$(call TESTS)

rest: .venv/.dev ## what `make test` leaves out: the tests marked `long`, and many examples of every property
	$(call TESTS,--rest)
	@echo "left out: 'make crash', 'make simulate', 'make soak' and 'make bench' run for as long as they are told to."

test-all: ## every test there is: `make test`, then `make rest`
	$(MAKE) test
	$(MAKE) rest

demo: .venv/.runtime ## the order workflow on a SQLite file: a flaky step, an approval, a kill -9 and the resume
	@$(BIN)/python examples/demo.py

bench: .venv/.dev ## W1 to W6 and the HTTP service beside the raw limit of this machine and beside others (PEERS=0 without, PEERS=all with all of the work)
	$(BIN)/python -m bench --peers $(PEERS) $(if $(ONLY),--only $(ONLY)) $(if $(WAITING),--waiting $(WAITING))

crash: .venv/.dev ## the crash tests, long form (ROUNDS=50)
	HOLDFAST_CRASH_ROUNDS=$(ROUNDS) $(BIN)/pytest tests/crash --all --timeout=0

simulate: .venv/.dev ## the simulations, long form (SEEDS=5000 FROM=0); SEEDS=1 FROM=17 is seed 17 again
	HOLDFAST_SIMULATION_SEEDS=$(SEEDS) HOLDFAST_SIMULATION_FROM=$(FROM) $(BIN)/pytest -n $(JOBS) --all --timeout=0 tests/simulation/test_simulation.py -k laws_hold

soak: .venv/.dev ## executions of every kind for SECONDS=600, two processes and a slow reader: nothing grows, no lease is lost
	$(BIN)/python -m bench.soak --seconds $(SECONDS)

clean: ## remove .venv, caches and build output
	rm -rf .venv .bench .bench-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@$(PYTHON) -m venv .venv >/dev/null 2>&1 || { rm -rf .venv; $(PYTHON) -m venv --without-pip .venv; }

# The build backend comes first and from the same constraints: build isolation would fetch an unpinned one.
.venv/.runtime: .venv/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing Holdfast into .venv"
	@$(INSTALL) hatchling editables
	@$(INSTALL) -e .
	@touch $@

.venv/.dev: .venv/.runtime
	@echo "installing the development tools into .venv"
	@$(INSTALL) -e '.[dev]'
	@touch $@
