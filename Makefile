# Few words, the same on a laptop and in CI. Needs Python 3.11+, pip and make; nothing else.
PYTHON ?= python3
# Where the environment lies: `make test PYTHON=python3.13 VENV=.venv-3.13` tests another interpreter beside the usual one.
VENV   ?= .venv
ROUNDS ?= 50
SEEDS  ?= 5000
FROM   ?= 0
SECONDS ?= 600
PEERS  ?= 1
# Three times the two cores of a small machine: many tests wait for processes of their own (two forks take twice as long).
JOBS   ?= 6
# Further arguments of pytest for `make test` and `make pythons`: ARGS='tests/unit -k ids'.
ARGS   ?=
SUPPORTED := 3.11 3.12 3.13

BIN    := $(VENV)/bin
CODE    = $(wildcard src tests bench examples)
# Debian's Python may lack ensurepip, so a venv without pip: then the outer pip installs into it.
PIP     = $(shell $(BIN)/python -m pip --version >/dev/null 2>&1 && echo $(BIN)/python -m pip || echo $(PYTHON) -m pip --python $(BIN)/python)
INSTALL = $(PIP) install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup browser check format docs pictures test rest test-all pythons demo demo-durable bench crash simulate soak clean

help: ## show these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.dev ## make .venv with everything a developer needs (quick when up to date)

browser: ## install Debian's Chromium, which the tests of the console's pages drive (as root); without it they are skipped, and say so
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@chromium --version --no-sandbox

check: $(VENV)/.dev ## format, lint, types, layers, house rules
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml
	$(BIN)/pytest tests/unit/test_house_rules.py tests/unit/test_doors.py tests/unit/test_plain_words.py tests/unit/test_promises.py

format: $(VENV)/.dev ## rewrite the code the way `make check` wants it
	$(BIN)/ruff check --fix-only --exit-zero $(CODE)
	$(BIN)/ruff format $(CODE)

docs: $(VENV)/.dev ## write the pages that are made from code: docs/reference/python, docs/reference/exit-codes.md and docs/internals/states.md
	$(BIN)/python -m tests.drawings.reference
	$(BIN)/python -m tests.drawings.states > docs/internals/states.md
	$(BIN)/python -m tests.drawings.exit_codes > docs/reference/exit-codes.md

pictures: $(VENV)/.dev ## take the pictures of the console's pages again: docs/pictures (needs `make browser`)
	$(BIN)/python -m tests.browser.pictures

# Bytecode is kept, whatever the shell says: else hundreds of short processes spend most of their time compiling the same files.
# Up to eight tests that fail beside others run again, alone; those that pass then are named at the end, with their first failure.
TESTS = $(BIN)/pytest --forks $(JOBS) --again 8 --costs $(1)
test rest: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/.dev ## every kind of proof, in minutes on two cores; says at its end what it leaves out, and what passed only when it ran alone
	$(call TESTS,$(ARGS))

rest: $(VENV)/.dev ## what `make test` leaves out: the tests marked `long`, and many examples of every property
	$(call TESTS,--rest)
	@echo "left out: 'make crash', 'make simulate', 'make soak' and 'make bench' run for as long as they are told to."

test-all: ## every test there is: `make test`, then `make rest`
	$(MAKE) test
	$(MAKE) rest

# pyenv's python3.12 works only with PYENV_VERSION; for every other interpreter the variable means nothing.
pythons: ## `make test` with each supported Python of this machine, in an environment of its own (ARGS=tests/unit for a part); not a part of CI's run
	@for version in $(SUPPORTED); do \
		export PYENV_VERSION=$$version; \
		if python$$version -c '' 2>/dev/null; then \
			echo "== Python $$version"; \
			$(MAKE) test PYTHON=python$$version VENV=.venv-$$version ARGS='$(ARGS)' || exit 1; \
		else \
			echo "== Python $$version is not on this machine"; \
		fi; \
	done

demo: $(VENV)/.runtime ## a pipeline of workers on a SQLite file: a page fails, a gate asks again, a person approves, a kill -9 and the resume
	@$(BIN)/python examples/vendor_research/demo.py

demo-durable: $(VENV)/.runtime ## the order workflow on a SQLite file: a flaky step, an approval, a kill -9 and the resume
	@$(BIN)/python examples/order_demo.py

bench: $(VENV)/.dev ## W1 to W6 and the HTTP service beside the raw limit of this machine and beside others (PEERS=0 without, PEERS=all with all of the work)
	$(BIN)/python -m bench --peers $(PEERS) $(if $(ONLY),--only $(ONLY)) $(if $(WAITING),--waiting $(WAITING))

crash: $(VENV)/.dev ## the crash tests, long form (ROUNDS=50)
	HOLDFAST_CRASH_ROUNDS=$(ROUNDS) $(BIN)/pytest tests/crash --all --timeout=0

simulate: $(VENV)/.dev ## the simulations, long form (SEEDS=5000 FROM=0); SEEDS=1 FROM=17 is seed 17 again
	HOLDFAST_SIMULATION_SEEDS=$(SEEDS) HOLDFAST_SIMULATION_FROM=$(FROM) $(BIN)/pytest --forks $(JOBS) --all --timeout=0 tests/simulation/test_simulation.py -k laws_hold

soak: $(VENV)/.dev ## executions of every kind for SECONDS=600, two processes and a slow reader: nothing grows, no lease is lost
	$(BIN)/python -m bench.soak --seconds $(SECONDS)

clean: ## remove .venv, caches and build output
	rm -rf .venv .venv-* .bench .bench-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV); }

# The build backend comes first and from the same constraints: build isolation would fetch an unpinned one.
$(VENV)/.runtime: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing Holdfast into $(VENV)"
	@$(INSTALL) hatchling editables
	@$(INSTALL) -e '.[server]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the development tools into $(VENV)"
	@$(INSTALL) -e '.[dev]'
	@touch $@
