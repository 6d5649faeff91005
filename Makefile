# make demo   set up, then train the digits network dense and skinny and show the difference
# make test   set up, then lint, type-check and run the tests
# make lint   the linters and the type checker alone
# make native build the C++ extension in place (src/skinny), for work on native/
# make bench  the benchmarks (slow; want a quiet machine)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.set-up
NATIVE := CMakeLists.txt $(shell find native -type f)

.PHONY: demo test lint native bench clean
.DELETE_ON_ERROR:

demo: $(SETUP)
	$(BIN)/skinny demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(SETUP)
	$(BIN)/python -m benchmarks

# For quick rebuilds: wants cmake and nanobind where PYTHON and PATH find them.
native:
	cmake -S . -B build/native -DPython_EXECUTABLE="$$($(PYTHON) -c 'import sys; print(sys.executable)')"
	cmake --build build/native --parallel
	cmake --install build/native --prefix src

$(SETUP): pyproject.toml constraints.txt $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $@

clean:
	rm -rf $(VENV) build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
