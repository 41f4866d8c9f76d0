# The few verbs of this repository. Each installs what it needs, once, into $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= runs/quickstart

.PHONY: quickstart test engines test-engines check bench hooks clean

quickstart: $(VENV)/.installed-embedded  ## the main job on this machine: example prompts → training rows
	@$(BIN)/draftmill quickstart --out $(OUT)

test: $(VENV)/.installed-dev  ## all tests that need no server but the embedded one
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder  # a long file of one test would be the last

engines:  ## install SGLang and vLLM for test-engines, which does it too where they are missing
	@scripts/engines/test_engines.sh install

test-engines: $(VENV)/.installed-dev  ## set up real SGLang and vLLM servers on the CPU and test against them
	@PYTHON=$(BIN)/python scripts/engines/test_engines.sh

check: $(VENV)/.installed-dev  ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(VENV)/.installed-dev  ## benchmarks, side by side with something else in one run
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

hooks: $(VENV)/.installed-dev  ## run `check` before every commit
	@$(BIN)/pre-commit install

clean:
	rm -rf $(VENV) .engines .peers .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.installed-embedded: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "draftmill needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3 …" >&2; exit 1; }
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[embedded]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-embedded
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[embedded,monitor,dev]'
	@touch $@
