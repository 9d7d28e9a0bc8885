# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test oldest check coverage bounds bench reproduce fuzz attack mutants audit docs clean

$(VENV)/base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dssl (the first time takes a minute or two) ..."
	$(PIP) install -c constraints.txt -e .
	touch $@

$(VENV)/dev: pyproject.toml constraints.txt $(VENV)/base
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

$(VENV)/bench: pyproject.toml constraints.txt $(VENV)/base
	$(PIP) install -c constraints.txt -e ".[bench]"
	touch $@

$(VENV)/fuzz: pyproject.toml constraints.txt $(VENV)/dev
	$(PIP) install -c constraints.txt -e ".[fuzz]"
	touch $@

$(VENV)/mutation: pyproject.toml constraints.txt $(VENV)/dev
	$(PIP) install -c constraints.txt -e ".[mutation]"
	touch $@

$(VENV)/docs: pyproject.toml constraints.txt $(VENV)/base
	$(PIP) install -c constraints.txt -e ".[docs]"
	touch $@

demo: $(VENV)/base
	$(BIN)/dssl demo

test: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# The oldest versions that are supported, against the tests of what depends on them most: kernels, estimators, models
# that were saved, the command line, reports and the explorer's server. Without the extras, whose tests are not among them.
oldest:
	test -x $(VENV)/oldest/bin/python || $(PYTHON) -m venv $(VENV)/oldest
	$(VENV)/oldest/bin/python -m pip --disable-pip-version-check --quiet install -c oldest.txt -e . \
	  hypothesis httpx pandas pytest pytest-xdist sybil
	OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(VENV)/oldest/numba $(VENV)/oldest/bin/python -m pytest -n 2 --dist loadfile \
	  $(addprefix tests/circuits/evaluate/test_,best.py expectations.py heaviest.py samples.py wmc.py) \
	  $(addprefix tests/models/,test_inference.py test_parameters.py files/test_kept.py files/test_saved.py) \
	  $(addprefix tests/app/test_,cli.py report.py terminal.py) tests/app/explorer/test_server.py

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The second run leaves the kernels uncompiled, so that their lines are counted too.
coverage: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report= \
	  tests/logic tests/circuits tests/priors tests/data tests/training tests/models tests/app tests/test_files.py
	OMP_NUM_THREADS=1 NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-append tests/circuits

# The compiled loops with every index checked.
bounds: $(VENV)/dev
	OMP_NUM_THREADS=1 NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds $(BIN)/python -m pytest -n 2 --dist loadfile tests/circuits

bench: $(VENV)/bench
	for name in compile evaluate priors training; do $(BIN)/python benchmarks/$$name.py || exit 1; done

reproduce: $(VENV)/bench
	@test -n "$$DSSL_DATA" || { echo "set DSSL_DATA to the folder of the data sets: see docs/results.md"; exit 1; }
	$(BIN)/dssl reproduce table2
	$(BIN)/dssl reproduce paper_figures
	$(BIN)/dssl reproduce combination --sets digits wine "breast cancer" cellcycle
	$(BIN)/dssl reproduce combination --sets mnist
	$(BIN)/dssl reproduce combination --sets cifar10
	$(BIN)/dssl reproduce combination --sets "mnist, long"
	$(BIN)/dssl reproduce hierarchies
	$(BIN)/dssl reproduce grid_paths
	$(BIN)/dssl reproduce zoo
	$(BIN)/dssl reproduce digit_sums
	$(BIN)/dssl reproduce sudoku
	$(BIN)/dssl reproduce peers
	$(BIN)/dssl reproduce results

fuzz: $(VENV)/fuzz
	$(BIN)/python fuzz/run.py --minutes 10

attack: $(VENV)/dev
	for name in precision threads kills load; do OMP_NUM_THREADS=1 $(BIN)/python attacks/$$name.py || exit 1; done

mutants: $(VENV)/mutation
	$(BIN)/python attacks/mutants.py

audit: $(VENV)/dev
	$(PIP) install pip-audit
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/installed.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/installed.txt

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html, or with its search: $(PYTHON) -m http.server --bind 127.0.0.1 --directory site"

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
