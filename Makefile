# make demo    install and run the main job on embedded data
# make test    install and run all quick tests, types, style and import contracts
# make check   the same checks without the tests
# make check-slow   the heavy tests
# make bench   speed and memory benchmarks, as ratios

PYTHON ?= python3
BIN := .venv/bin
THREADS := OMP_NUM_THREADS=1

.PHONY: demo test check check-slow bench clean

demo: .venv/.installed
	rm -rf demo-run
	$(BIN)/simulacra demo --out demo-run

test: .venv/.installed check
	$(THREADS) $(BIN)/python -m pytest -n 2 -m "not slow"

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check-slow: .venv/.installed
	$(THREADS) $(BIN)/python -m pytest -m slow

bench: .venv/.installed
	$(BIN)/python -m benchmarks.speed

# Everything is pinned in constraints.txt; a change there or in pyproject.toml installs anew.
.venv/.installed: constraints.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "simulacra needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv demo-run
