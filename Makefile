# make demo   set up, then train the digits network dense and skinny and show the difference
# make test   set up, then lint, type-check and run the tests; lists at the end what was skipped, and why
# make fuzz   random networks in files with random changes, run and compared, for FUZZ_SECONDS (600)
#             or for FUZZ_CASES files
# make lint   the linters and the type checker alone
# make native build the C++ extension in place (src/skinny), for work on native/
# make bench  the benchmarks, with the engines they compare us to (slow; want a quiet machine)
# make bench-avx2  the benchmark of inference as on a processor without AVX-512: hidden from all
#                  contenders (Linux, Intel), or switched off in those that have a switch;
#                  BENCH_OPTIONS are the benchmark's own (--quick, --only "batch 1")
# make sanitize  tests of kernels and coders, and SANITIZE_CASES (1000) files of the fuzzer, under
#                AddressSanitizer and UBSan, with every instruction set of the machine
# make test-arm  the same tests on an emulated ARM processor with NEON (Debian)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.set-up
DEEPSPARSE := .venv-deepsparse/.set-up
NATIVE := CMakeLists.txt $(shell find native -type f)
# Where cmake writes makefiles, --parallel without a number starts all compilers at once.
PARALLEL := --parallel $(shell getconf _NPROCESSORS_ONLN)

.PHONY: demo test lint style fuzz setup native bench bench-avx2 sanitize test-arm arm-python clean
.DELETE_ON_ERROR:

# Tests start dozens of processes, which need not compile the same modules again.
export PYTHONDONTWRITEBYTECODE :=

demo: $(SETUP)
	$(BIN)/skinny demo

# mypy has one thread: it runs beside the tests, and what it has to say comes after theirs.
test: style
	types=$$(mktemp) && { $(BIN)/mypy --no-error-summary > $$types 2>&1 & } && \
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

BENCH_OPTIONS ?=
bench-avx2: $(VENV)/.peers $(DEEPSPARSE)
	mkdir -p build
	$(CC) -O1 -shared -fPIC -o build/hide_avx512.so benchmarks/hide_avx512.c -ldl
	if LD_PRELOAD=$(CURDIR)/build/hide_avx512.so /bin/true; then \
	    export LD_PRELOAD=$(CURDIR)/build/hide_avx512.so; \
	else \
	    export SKINNY_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 NM_ARCH=avx2; \
	fi; $(BIN)/python -m benchmarks inference $(BENCH_OPTIONS)

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
# SKINNY_TEST_INT8: that test starts no other processes; every instruction set has its turn below.
SANITIZED = PYTHONPATH=$(SANITIZE)/tree SKINNY_TEST_INT8=1 ASAN_OPTIONS=detect_leaks=0 \
    LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
    $(SANITIZE)/venv/bin/python
SANITIZE_CASES ?= 1000
SANITIZED_TESTS := $(patsubst %,tests/runtime/test_%.py,kernels pooling in_place seam engine_seam) \
    $(wildcard tests/runtime/test_tensor_*.py) \
    $(patsubst %,tests/packing/test_%.py,adaptive bitmask entropy symbols)
INT8_TESTS := tests/runtime/test_int8.py tests/runtime/test_int8_seam.py
sanitize:
	test -e "$$($(CXX) -print-file-name=libasan.so)" || \
	    { echo "$(CXX) has no AddressSanitizer; GCC's comes with libgcc-*-dev (Debian)"; exit 1; }
	$(PYTHON) -m venv $(SANITIZE)/venv
	$(SANITIZE)/venv/bin/python -m pip install --quiet --constraint constraints.txt \
	    numpy safetensors pytest hypothesis nanobind cmake
	PATH="$(CURDIR)/$(SANITIZE)/venv/bin:$$PATH" cmake -S . -B $(SANITIZE)/native \
	    -DSKINNY_SANITIZE=ON -DPython_EXECUTABLE="$(CURDIR)/$(SANITIZE)/venv/bin/python"
	$(SANITIZE)/venv/bin/cmake --build $(SANITIZE)/native $(PARALLEL)
	rm -rf $(SANITIZE)/tree && mkdir -p $(SANITIZE)/tree
	cp -R src/skinny $(SANITIZE)/tree/ && rm -f $(SANITIZE)/tree/skinny/_native*.so
	$(SANITIZE)/venv/bin/cmake --install $(SANITIZE)/native --prefix $(SANITIZE)/tree
	isas=$$($(SANITIZED) -c 'from skinny import native; print(*native.extension().isas())') && \
	for isa in $$isas; do \
	    echo "== $$isa" && for tests in $(SANITIZED_TESTS) $(INT8_TESTS); do \
	        SKINNY_ISA=$$isa $(SANITIZED) -m pytest -q -p no:cacheprovider \
	            --confcutdir=$$(dirname $$tests) $$tests || exit 1; \
	    done && \
	    SKINNY_ISA=$$isa $(SANITIZED) -m tests.runtime.fuzzing --cases $(SANITIZE_CASES) --seed 0 \
	        --into $(SANITIZE)/fuzz || exit 1; \
	done

# The extension is cross-compiled for a Debian Python, which qemu emulates; no speed is measured.
ARM := build/arm
ARM_PYTHON := $(CURDIR)/$(ARM)/python/root/usr/bin/python
EMULATED := PYTHONPATH=$(CURDIR)/$(ARM)/tree:$(CURDIR)/$(ARM)/python/site $(ARM_PYTHON)
test-arm: arm-python
	include=$$($(EMULATED) -c 'import sysconfig; print(sysconfig.get_path("include"))') && \
	PYTHONPATH=$(CURDIR)/$(ARM)/python/site $(ARM)/venv/bin/cmake -S . -B $(ARM)/native \
	    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DPython_EXECUTABLE=$(ARM_PYTHON) \
	    -DPython_INCLUDE_DIR="$$include" -DCMAKE_CXX_FLAGS="-idirafter $$(dirname "$$include")"
	$(ARM)/venv/bin/cmake --build $(ARM)/native $(PARALLEL)
	rm -rf $(ARM)/tree && mkdir -p $(ARM)/tree
	cp -R src/skinny $(ARM)/tree/ && rm -f $(ARM)/tree/skinny/_native*.so
	$(ARM)/venv/bin/cmake --install $(ARM)/native --prefix $(ARM)/tree
	test "$$($(EMULATED) -c 'from skinny import native; print(native.extension().isa())')" = neon
	for tests in $(SANITIZED_TESTS:%=neon:%) \
	    $(patsubst %,baseline:tests/runtime/test_%.py,kernels pooling); do \
	    echo $$tests | tr : " "; done | \
	xargs -P 2 -L 1 sh -c 'SKINNY_ISA=$$0 $(EMULATED) -m pytest -q -p no:cacheprovider \
	    --hypothesis-profile=ci --confcutdir=$$(dirname $$1) $$1 > $(ARM)/$$0-$$(basename $$1).log 2>&1; \
	    status=$$?; echo "== $$0 $$1"; tail -n 40 $(ARM)/$$0-$$(basename $$1).log; exit $$status'

arm-python: $(ARM)/python/.set-up
$(ARM)/python/.set-up: tests/arm64_python.sh constraints.txt
	command -v aarch64-linux-gnu-g++ > /dev/null || \
	    { echo "make test-arm needs aarch64-linux-gnu-g++, Debian's g++-aarch64-linux-gnu"; exit 1; }
	$(PYTHON) -m venv $(ARM)/venv
	$(ARM)/venv/bin/python -m pip install --quiet cmake
	PYTHON=$(ARM)/venv/bin/python tests/arm64_python.sh $(@D) --constraint constraints.txt \
	    numpy safetensors pytest hypothesis nanobind
	touch $@

# For quick rebuilds: wants cmake and nanobind where PYTHON and PATH find them.
native:
	cmake -S . -B build/native -DPython_EXECUTABLE="$$($(PYTHON) -c 'import sys; print(sys.executable)')"
	cmake --build build/native $(PARALLEL)
	cmake --install build/native --prefix src

$(SETUP): pyproject.toml constraints.txt $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-deepsparse build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
