# Two commands set everything up: `make run` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help run test lint format schema readme dist bench bench-daemon bench-engines \
  bench-estimates bench-fleet bench-peers bench-history repeat lab card soak fuzz sanitize clean prerequisites

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

C_SOURCES := $(wildcard csrc/*.c csrc/*.h tests/machine/*.c)
C_STAND_INS := $(wildcard tests/fake_*/*.[ch])
SANITIZERS_asan := address,undefined
SANITIZERS_tsan := thread
NATIVE_INPUTS := pyproject.toml $(wildcard csrc/*)
MODULES := build/modules.txt
INSTALLED := $(VENV)/installed.stamp
DEV_TOOLS := $(VENV)/dev-tools.stamp

FUZZ_SECONDS ?= 600
FUZZ_TARGETS := gguf safetensors config keys quantised folder
FUZZ_VENV := build/fuzz-venv

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(INSTALLED) ## set up, then print this machine's full report
	@$(BIN)/nodecheck

test: $(DEV_TOOLS) ## set up, then run all tests
	$(BIN)/python -m pytest

lint: $(DEV_TOOLS) build/lint/compile_commands.json ## check style, types, import contracts and C
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(C_SOURCES) $(C_STAND_INS)
	$(BIN)/cmake --build build/lint
	$(BIN)/clang-tidy --quiet -p build/lint $(filter %.c,$(C_SOURCES))

format: $(DEV_TOOLS) ## rewrite Python and C in the one style
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(C_SOURCES) $(C_STAND_INS)

schema: $(INSTALLED) ## write the schemas in docs/ anew
	for made in report.Report plan.Plan records.compare.compare.Comparison records.history.history.History \
	    records.fleet.fleet.Fleet; do \
	  name=$${made%.*}; \
	  $(BIN)/python -c "import json, msgspec; from nodecheck.$$name import $${made##*.} as made; \
	print(json.dumps(msgspec.json.schema(made), indent=1))" > docs/$${name##*.}.schema.json; \
	done

readme: $(INSTALLED) ## write the report in README.md anew
	$(BIN)/python -m tests.readme

dist: $(DEV_TOOLS) ## build sdist, wheel and the tarball for nodes without network into dist/
	rm -f dist/*.whl
	$(BIN)/python -m build --outdir dist
	PYTHONPATH=agent $(BIN)/python -m release.wheelhouse dist

bench: $(DEV_TOOLS) ## hold the time and memory budgets against peers
	$(BIN)/python -m compileall -q agent
	$(BIN)/python tests/bench/budgets.py

bench-daemon: $(DEV_TOOLS) ## hold the daemon at rest beside prometheus-node-exporter (10 minutes)
	$(BIN)/python -m tests.bench.daemon

bench-engines: $(DEV_TOOLS) ## hold the decode prediction against llama.cpp (an hour)
	$(BIN)/python -m tests.bench.engines

bench-estimates: $(DEV_TOOLS) ## hold plans and other estimators against llama.cpp (after bench-engines)
	$(BIN)/python -m tests.bench.estimates

bench-fleet: $(DEV_TOOLS) ## hold the comparison of 10,000 reports to its budgets
	$(BIN)/python -m tests.bench.fleet

bench-peers: $(DEV_TOOLS) ## hold the loops over memory against other benchmarks
	$(BIN)/python -m tests.bench.peers

bench-history: $(DEV_TOOLS) ## hold a history of SNAPSHOTS (500000) to its budgets (half an hour)
	$(BIN)/python -m tests.bench.history $(SNAPSHOTS)

repeat: $(DEV_TOOLS) ## how well the memory measurement repeats, on an idle machine
	$(BIN)/python tests/bench/repeat.py

lab: $(DEV_TOOLS) ## run only the tests that need a real environment
	$(BIN)/python -m pytest -m lab

card: $(DEV_TOOLS) ## all that a real NVIDIA card can show; CARD_CAPTURE=FOLDER keeps a capture
	$(BIN)/nodecheck
	$(BIN)/nodecheck bench gpu
	$(BIN)/python -m pytest -m lab tests/lab/test_real_card.py

soak: $(DEV_TOOLS) ## run the tests that take minutes
	$(BIN)/python -m pytest -m soak --timeout 3600

fuzz: $(FUZZ_VENV)/installed.stamp ## fuzz the readers of model files for FUZZ_SECONDS (600)
	set -e; for target in $(FUZZ_TARGETS); do \
	  PYTHONPATH=agent:. $(FUZZ_VENV)/bin/python -m tests.fuzz.fuzz_workload $$target \
	    -max_total_time=$$(($(FUZZ_SECONDS) / $(words $(FUZZ_TARGETS)))) -print_final_stats=1; \
	done

$(FUZZ_VENV)/installed.stamp:
	$(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m pip --disable-pip-version-check --quiet install 'atheris>=2.3' 'msgspec>=0.18'
	@touch $@

sanitize: sanitize-asan sanitize-tsan ## run the C tests under ASan and UBSan, then under TSan

.PRECIOUS: build/%/build.ninja
sanitize-%: build/%/build.ninja
	$(BIN)/cmake --build build/$*
	set -e; for driver in build/$*/*_driver; do $$driver; done

clean: ## remove all that was built, the virtual environment too
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Editable: edits of Python count at once, edits of C and modules that came or went at the next make.
$(INSTALLED): $(NATIVE_INPUTS) $(MODULES) | $(VENV)/bin/python
	@$(MAKE) --no-print-directory prerequisites
	$(PIP) install --editable '.[daemon]'
	@touch $@

$(MODULES): FORCE
	@mkdir -p $(@D); find agent -name '*.py' | LC_ALL=C sort > $@.new
	@cmp -s $@.new $@ || cp $@.new $@
FORCE:

$(DEV_TOOLS): pyproject.toml | $(INSTALLED)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group dev
	@touch $@

$(VENV)/bin/python:
	@$(MAKE) --no-print-directory prerequisites
	$(PYTHON) -m venv $(VENV)

build/%/build.ninja build/%/compile_commands.json: $(DEV_TOOLS) csrc/CMakeLists.txt
	$(BIN)/cmake -S csrc -B build/$* -G Ninja -DNODECHECK_WERROR=ON \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DNODECHECK_SANITIZE=$(SANITIZERS_$*) \
	  -DNODECHECK_DRIVERS=$(abspath tests/machine)

prerequisites:
	@missing=; \
	command -v $(PYTHON) >/dev/null || missing="$$missing python3"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	$(PYTHON) -c 'import os, sysconfig as s; open(s.get_path("include") + "/Python.h")' 2>/dev/null \
	  || missing="$$missing python3-dev"; \
	echo '#include <stdio.h>' | $${CC:-cc} -E - >/dev/null 2>&1 || missing="$$missing gcc libc6-dev"; \
	test -z "$$missing" || { \
	  echo "nodecheck cannot be built without:$$missing. Run: apt-get install$$missing" >&2; exit 1; }
