# make demo   set up, then train the digits network dense and skinny and show the difference
# make test   set up, then lint, type-check and run the tests
# make lint   the linters and the type checker alone
# make bench  the benchmarks (slow; want a quiet machine)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.set-up

.PHONY: demo test lint bench clean
.DELETE_ON_ERROR:

demo: $(SETUP)
	$(BIN)/skinny demo

test: lint
	$(BIN)/python -m pytest

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(SETUP)
	$(BIN)/python -m benchmarks

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $@

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
