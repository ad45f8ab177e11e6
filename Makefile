# Two commands are enough: `make demo` speaks, `make test` tests. Both make .venv if it is missing
# and bring it up to date when pyproject.toml or constraints.txt has changed.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
DOCS := build/docs
# Windows keeps the programs of an environment elsewhere, with an ending. Recipes need a POSIX shell.
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
EXE := .exe
else
SCRIPTS := bin
endif
BIN := $(VENV)/$(SCRIPTS)
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
# Modules are compiled when they are imported. The tests import a quarter of them.
PIP_INSTALL = $(BIN)/python -m pip install --no-compile --disable-pip-version-check \
  -c constraints.txt
# Containers often forbid compiled files. Programs that tests start would compile modules each time.
unexport PYTHONDONTWRITEBYTECODE
# Each test process computes on one thread; on a shared core more threads only wait for each other.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)
QUICK = "not slow and not gpu and not peer"
# Tests of a file share its server and its models, if one process runs them all.
PYTEST_QUICK = $(PYTEST) --dist loadfile -m $(QUICK)

SENTENCE := Hello, this is a small voice that was trained from scratch. It speaks on your own machine.

.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-slow test-thorough sweep-text test-gpu test-machines test-busy test-lowest test-plain test-scale
.PHONY: test-clients test-newest lint-page licences
.PHONY: soak wheels test-prebuilt sanitize peer-scripts format references pictures clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED)  ## speak a sentence with the bundled voice into demo.wav
	$(BIN)/chattts say "$(SENTENCE)" -o demo.wav

test: $(INSTALLED_DEV)  ## lint, types and the quick tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=$(WORKERS) $(BIN)/mypy
	$(PYTEST_QUICK) --durations=10 --durations-min=3 $(MEASURED)

coverage: MEASURED = --cov
coverage: test  ## the same, and the lines that the quick tests run; fails below a floor

test-slow: $(INSTALLED_DEV)  ## the long tests; with BUDGET=SECONDS those that can begin in this time
	$(PYTEST) -m "slow and not thorough and not gpu and not peer" $(if $(BUDGET),-rs --budget $(BUDGET))

test-thorough: $(INSTALLED_DEV)  ## the longest tests: whole tables of cases, and tools that no user gets
	$(PYTEST) -m "thorough and not gpu and not peer"

# What a machine has: apt install wamerican wordnet-base bible-kjv fortunes fortunes-zh
sweep-text: $(INSTALLED_DEV)  ## feed the lines of this machine's documents to every stage of text
	$(BIN)/python -m tests.text.sweep $(if $(MOST),--most $(MOST))

test-gpu: $(INSTALLED_DEV)  ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

# Computers of users: NumPy's BLAS, torch's operators and our kernels as they are on other processors.
# One of them: make test-on-blas-Haswell. A processor must know the instructions that it is given.
# Compilers that tune for Zen take fused multiply-adds apart where they may.
MACHINES := $(addprefix blas-,Nehalem Sandybridge Haswell SkylakeX Zen) \
  $(addprefix torch-,default avx2) $(addprefix kernels-,x86-64 x86-64-v2 x86-64-v3)
test-machines: $(addprefix test-on-,$(MACHINES))  ## the quick tests, as on ten other processors

test-on-blas-%: $(INSTALLED_DEV)
	OPENBLAS_CORETYPE=$* $(PYTEST_QUICK)
test-on-torch-%: $(INSTALLED_DEV)
	ATEN_CPU_CAPABILITY=$* $(PYTEST_QUICK)
test-on-kernels-%: $(INSTALLED_DEV)
	CXX="$(or $(CXX),c++) -march=$* -mtune=znver3" $(PYTEST_QUICK)

# Checks are compiled into the kernels alone. Their library must be loaded before Python, and makes
# the compiler slow, which so runs before. They end the process with a report, so pytest captures
# nothing. Left out are a test that limits addresses, of which the checks take terabytes, and those of
# the bundled voice, which take long and read no memory that the small models do not.
SANITIZED := $(patsubst %,tests/model/%.py,kernels/cpu/test_products \
  $(patsubst %,synthesis/test_%,cpu_decoder streaming_decoder cpu_convnext) \
  $(patsubst %,velocity/backends/torch/test_%,llama sampler) \
  velocity/backends/cpu/test_packing velocity/test_adapters) tests/pipeline/decode/test_worker.py
SANITIZE := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all
GCC_LIBRARY = $(shell g++ -print-file-name=lib$(1).so)

sanitize: sanitize-memory sanitize-threads  ## the kernels under memory, arithmetic and thread checks

sanitize-memory: export CXX = g++ $(SANITIZE) -fno-omit-frame-pointer -g1
sanitize-memory: $(INSTALLED_DEV)
	$(BIN)/python -c 'from ChatTTS.model.kernels.cpu import build; build.library()'
	OMP_NUM_THREADS=1 PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$(call GCC_LIBRARY,asan) $(call GCC_LIBRARY,ubsan)" \
	  $(BIN)/python -m pytest -s -p no:cacheprovider -p no:xdist $(SANITIZED) \
	  -k "not more_threads_than and not bundled and not triton and not cuda"

# setarch: the checks of GCC 12 do not bear all the places that newer systems give to programs.
sanitize-threads:
	mkdir -p build
	g++ -std=c++17 -O1 -g -pthread -march=native -fsanitize=thread tests/native_threads.cpp \
	  -o build/native_threads
	setarch -R build/native_threads

test-busy: $(INSTALLED_DEV)  ## the quick tests, three times beside four busy loops
	for i in 1 2 3 4; do while :; do :; done & loops="$$loops $$!"; done; \
	  trap "kill $$loops" EXIT; for i in 1 2 3; do $(PYTEST_QUICK) || exit 1; done

# Environments of their own; uv resolves the lowest versions that pyproject.toml allows.
test-lowest:  ## the quick tests with the lowest versions of all packages
	$(PYTHON) -m venv build/uv && build/uv/bin/pip install -q uv
	build/uv/bin/uv venv -q --clear --python $(PYTHON) build/lowest
	build/uv/bin/uv pip install -q --python build/lowest/bin/python --resolution lowest-direct \
	  -e '.[dev]'
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -n $(WORKERS) -m $(QUICK)

# The newest transformers stands before the other packages, so nothing else changes. PyTorch stays: its
# newest wheels bring gigabytes of CUDA. A warning of transformers about what it will remove fails.
NEWEST := build/newest
ON_TRANSFORMERS := $(patsubst %,tests/pipeline/test_%.py,chat conformance default_engine) \
  tests/model/llama/test_transformers_import.py
test-newest: $(INSTALLED_DEV)  ## the tests of the standard engine with the newest transformers
	rm -rf $(NEWEST)
	$(BIN)/python -m pip install -q --disable-pip-version-check --target $(NEWEST) transformers
	PYTHONPATH=$(NEWEST) $(BIN)/python -c 'import transformers; print(transformers.__version__)'
	PYTHONPATH=$(NEWEST) $(PYTEST_QUICK) $(ON_TRANSFORMERS)

test-plain:  ## the quick tests without the optional packages
	$(PYTHON) -m venv --clear build/plain
	build/plain/bin/pip install -q -c constraints.txt -e . pytest pytest-xdist hypothesis packaging
	OMP_NUM_THREADS=1 build/plain/bin/python -m pytest -n $(WORKERS) -m $(QUICK)

# Ray is in no other environment: the tests of replicas and of ranks as actors are skipped there.
SCALED := tests/serving/replicas tests/model/velocity/executor/ranks/test_ray_actors.py
test-scale:  ## the tests of replicas and ranks on Ray; needs Python 3.11 or newer
	$(PYTHON) -m venv build/scale
	build/scale/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,scale]'
	build/scale/bin/python -c 'import ray'
	OMP_NUM_THREADS=1 build/scale/bin/python -m pytest $(SCALED)

# A server with replicas takes part where Ray is: PYTHON_OF_SOAK=build/scale/bin/python after test-scale.
HOURS ?= 1
SOAK ?= --report build/soak --plot
PYTHON_OF_SOAK ?= $(BIN)/python
soak: $(INSTALLED_DEV)  ## load servers and disturb them: make soak HOURS=24; what grows, differs or stays open
	mkdir -p build
	$(PYTHON_OF_SOAK) -m benchmarks.serving.soak --hours $(HOURS) $(SOAK)

# SDKs of other vendors, and voice agents that use these; they need other packages than ours.
CLIENTS := build/clients
test-clients: $(INSTALLED_DEV)  ## the server with other vendors' SDKs, LiveKit and Pipecat, from their registry
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/$(SCRIPTS)/python -m pip install -q --disable-pip-version-check \
	  -r tests/serving/vendors/clients.txt
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/serving/vendors/test_sdks.py

# Zig's compiler makes kernels for every system on any system, at about a minute a library.
ZIG = $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt ziglang wheel
wheels: $(INSTALLED_DEV)  ## wheels with CPU kernels into dist, of the last commit: make wheels FOR="linux-x86_64"
	$(ZIG)
	$(BIN)/python -m recipes.wheels $(FOR)

# Needs qemu-user with the libraries of arm64 (libc6-arm64-cross), and wine. x86-64 libraries run here as
# far as this processor can. In eight bits all libraries must give one and the same hash.
HARNESS = $(BIN)/python -m ziglang c++ -std=c++17 -O2 tests/native_prebuilt.cpp
PREBUILT = ChatTTS/model/kernels/cpu/prebuilt
FOUND = build/prebuilt
ARM = qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu
ARM_LIBRARIES = $(FOUND)/*aarch64.whl/$(PREBUILT)
RUNS_HERE = $(BIN)/python -m recipes.wheels.runnable
test-prebuilt: $(INSTALLED_DEV)  ## kernels of Linux's and Windows' wheels in dist, in emulators
	rm -rf $(FOUND) && mkdir -p $(FOUND)
	$(ZIG)
	for wheel in dist/*linux*.whl dist/*win*.whl; do \
	  $(BIN)/python -m zipfile -e $$wheel $(FOUND)/$$(basename $$wheel) || exit 1; done
	$(HARNESS) -o $(FOUND)/check
	$(FOUND)/check $$($(RUNS_HERE) $(FOUND)/*linux*x86_64.whl/$(PREBUILT)/*.so) >> $(FOUND)/said
	$(HARNESS) -target aarch64-linux-gnu.2.17 -o $(FOUND)/check-arm64
	$(ARM) cortex-a72 $(FOUND)/check-arm64 $(ARM_LIBRARIES)/arm64.so >> $(FOUND)/said
	$(ARM) neoverse-n1 $(FOUND)/check-arm64 $(ARM_LIBRARIES)/arm64-dotprod.so >> $(FOUND)/said
	$(ARM) max $(FOUND)/check-arm64 $(ARM_LIBRARIES)/*.so >> $(FOUND)/said
	$(HARNESS) -target x86_64-windows-gnu -o $(FOUND)/check.exe
	WINEDEBUG=-all wine $(FOUND)/check.exe \
	  $$($(RUNS_HERE) $(FOUND)/*win*.whl/$(PREBUILT)/*.dll) >> $(FOUND)/said
	cat $(FOUND)/said
	test $$(grep -o 'in eight bits [0-9a-f]*' $(FOUND)/said | sort -u | wc -l) = 1

licences: $(INSTALLED_DEV)  ## list the packages of a plain install with their licences; fails for some
	$(BIN)/python -m recipes.licences

peer-scripts: $(INSTALLED_DEV)  ## run the published repository's scripts: make peer-scripts REPO=FOLDER
	$(BIN)/python -m tests.scripts.peer_scripts "$(REPO)"

.PHONY: docs
docs: $(DOCS)/.installed  ## build the documentation into build/site and check its links
	PATH="$(CURDIR)/$(DOCS)/$(SCRIPTS):$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --strict

lint-page:  ## lint the JavaScript of the server's page; needs Node.js
	npx --yes @biomejs/biome@2.6.8 lint --error-on-warnings ChatTTS/serving/web/*.js

format: $(INSTALLED_DEV)  ## mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

references: $(INSTALLED_DEV)  ## make the reference audio of the regression tests again
	$(BIN)/python -m pytest tests/pipeline/test_regression.py --update-speech

pictures: $(INSTALLED_DEV)  ## make the sound and the pictures of the documents again; the page's needs Chromium
	$(BIN)/python -m tests.make_pictures

clean:  ## remove the environment, builds, caches and demo.wav
	rm -rf $(VENV) build dist *.egg-info demo.wav demo.png
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment without pip is worse than none: the next call would take it for a good one.
$(BIN)/python$(EXE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo 'Python 3.10 or newer is needed, and $(PYTHON) is not; name one, like this:' >&2; \
	  echo '  make $(MAKECMDGOALS) PYTHON=/path/to/python3.12' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The site is made from the sources alone, so its environment needs neither torch nor the package.
# An older pip than 25.1 knows no groups.
$(DOCS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/$(SCRIPTS)/python -m pip install -q --disable-pip-version-check -c constraints.txt -U pip
	$(DOCS)/$(SCRIPTS)/python -m pip install -q -c constraints.txt --group docs
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python$(EXE)
	$(PIP_INSTALL) -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python$(EXE)
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(INSTALLED)
