# make run    the service on http://127.0.0.1:8080, with a SQLite file beside this one
# make test   lint-free tests on SQLite and on a PostgreSQL that they start themselves
# make lint   format, lint and types
# make bench  measures the service beside others; QUICK=1 in three minutes; ARGS=--help for more
# Each makes the virtual environment that it needs.

PYTHON ?= python3.11
PIP = -m pip install --quiet --disable-pip-version-check

# The pip that Python brings is several times slower.
NEWER = --upgrade pip==26.3
# Images often set it. Then every server that the tests start would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test lint contract bench clean

run: .venv/.installed
	@exec .venv/bin/gunicorn -c wsgi.py 'wsgi:create()'

test: .venv-test/.installed
	.venv-test/bin/python -m pytest $(ARGS)

lint: .venv-test/.installed
	.venv-test/bin/ruff check .
	.venv-test/bin/ruff format --check .
	.venv-test/bin/mypy models inbox
	.venv-test/bin/python -m api.openapi --check

contract: .venv-test/.installed
	.venv-test/bin/python -m api.openapi

bench: .venv-bench/.installed .venv-parley/.installed
	@exec .venv-bench/bin/python -m bench $(if $(QUICK),--quick) $(ARGS)

clean:
	rm -rf .venv .venv-test .venv-bench .venv-parley .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.installed: requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) $(NEWER)
	.venv/bin/python $(PIP) -r requirements.txt
	@touch $@

.venv-test/.installed: requirements.txt requirements-dev.txt
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/python $(PIP) $(NEWER)
	.venv-test/bin/python $(PIP) --no-compile -r requirements-dev.txt
	@touch $@

.venv-bench/.installed: requirements.txt requirements-bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(PIP) -r requirements-bench.txt
	@touch $@

# What the bench compares with, apart from what the service runs on.
.venv-parley/.installed: bench/parley.txt
	$(PYTHON) -m venv .venv-parley
	.venv-parley/bin/python $(PIP) -r bench/parley.txt
	@touch $@
