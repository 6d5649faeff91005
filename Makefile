# make demo   set up, then train the digits network dense and skinny and show the difference
# make test   set up, then lint, type-check and run the tests; lists at the end what was skipped, and why
# make fuzz   random networks in files with random changes, run and compared, for FUZZ_SECONDS (600)
#             or for FUZZ_CASES files
# make lint   the linters and the type checker alone
# make native build the C++ extension in place (src/skinny), for work on native/
# make bench  the benchmarks, with the engines they compare us to (slow; want a quiet machine)
# make bench-avx2  the benchmark of inference as on a processor without AVX-512 (Linux, Intel)
# make sanitize  tests of kernels and coders, and SANITIZE_CASES (1000) files of the fuzzer, under
#                AddressSanitizer and UBSan, with every instruction set of the machine

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.set-up
DEEPSPARSE := .venv-deepsparse/.set-up
NATIVE := CMakeLists.txt $(shell find native -type f)

.PHONY: demo test lint style fuzz setup native bench bench-avx2 sanitize clean
.DELETE_ON_ERROR:

# Tests start dozens of processes, which need not compile the same modules again.
export PYTHONDONTWRITEBYTECODE :=

demo: $(SETUP)
	$(BIN)/skinny demo

# mypy has one thread: it runs beside the tests, and what it has to say comes after theirs.
test: style
	types=$$(mktemp) && { $(BIN)/mypy > $$types 2>&1 & } && \
	if $(BIN)/python -m pytest -n 2 --dist worksteal; then tests=0; else tests=1; fi; \
	if wait $$!; then typed=0; else typed=1; fi; \
	cat $$types; rm $$types; exit $$((tests || typed))

# From another seed each time, unless FUZZ_SEED says which; findings go to build/fuzz.
FUZZ_SECONDS ?= 600
FUZZ_SEED ?=
FUZZ_CASES ?=
fuzz: $(SETUP)
	$(BIN)/python -m tests.runtime.fuzzing $(addprefix --seed ,$(FUZZ_SEED)) \
	    $(if $(FUZZ_CASES),--cases $(FUZZ_CASES),--seconds $(FUZZ_SECONDS))

setup: $(SETUP)

lint: style
	$(BIN)/mypy

style: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(VENV)/.peers $(DEEPSPARSE)
	$(BIN)/python -m benchmarks

bench-avx2: $(VENV)/.peers $(DEEPSPARSE)
	mkdir -p build
	$(CC) -O1 -shared -fPIC -o build/hide_avx512.so benchmarks/hide_avx512.c -ldl
	LD_PRELOAD=$(CURDIR)/build/hide_avx512.so $(BIN)/python -m benchmarks inference

$(VENV)/.peers: $(SETUP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev,bench]'
	touch $@

# Where DeepSparse cannot be installed the benchmarks say so and go on.
$(DEEPSPARSE): benchmarks/requirements-deepsparse.txt
	$(PYTHON) -m venv $(@D)
	-$(@D)/bin/python -m pip install --quiet --requirement $<
	touch $@

# A build of its own, and an environment without torch, whose own findings are not ours to fix.
SANITIZE := build/sanitize
SANITIZED = PYTHONPATH=$(SANITIZE)/tree ASAN_OPTIONS=detect_leaks=0 \
    LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
    $(SANITIZE)/venv/bin/python
SANITIZE_CASES ?= 1000
SANITIZED_TESTS := $(patsubst %,tests/runtime/test_%.py,kernels seam) \
    $(wildcard tests/runtime/test_tensor_*.py) \
    $(patsubst %,tests/packing/test_%.py,bitmask entropy symbols)
sanitize:
	test -e "$$($(CXX) -print-file-name=libasan.so)" || \
	    { echo "$(CXX) has no AddressSanitizer; GCC's comes with libgcc-*-dev (Debian)"; exit 1; }
	$(PYTHON) -m venv $(SANITIZE)/venv
	$(SANITIZE)/venv/bin/python -m pip install --quiet --constraint constraints.txt \
	    numpy safetensors pytest hypothesis nanobind cmake
	PATH="$(CURDIR)/$(SANITIZE)/venv/bin:$$PATH" cmake -S . -B $(SANITIZE)/native \
	    -DSKINNY_SANITIZE=ON -DPython_EXECUTABLE="$(CURDIR)/$(SANITIZE)/venv/bin/python"
	$(SANITIZE)/venv/bin/cmake --build $(SANITIZE)/native --parallel
	rm -rf $(SANITIZE)/tree && mkdir -p $(SANITIZE)/tree
	cp -R src/skinny $(SANITIZE)/tree/ && rm -f $(SANITIZE)/tree/skinny/_native*.so
	$(SANITIZE)/venv/bin/cmake --install $(SANITIZE)/native --prefix $(SANITIZE)/tree
	best=$$($(SANITIZED) -c 'from skinny import native; print(native.extension().isa())') && \
	for isa in baseline avx2 avx512; do \
	    echo "== $$isa" && for tests in $(SANITIZED_TESTS); do \
	        SKINNY_ISA=$$isa $(SANITIZED) -m pytest -q -p no:cacheprovider \
	            --confcutdir=$$(dirname $$tests) $$tests || exit 1; \
	    done && \
	    SKINNY_ISA=$$isa $(SANITIZED) -m tests.runtime.fuzzing --cases $(SANITIZE_CASES) --seed 0 \
	        --into $(SANITIZE)/fuzz || exit 1; \
	    test $$isa != $$best || break; \
	done

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
	rm -rf $(VENV) .venv-deepsparse build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
