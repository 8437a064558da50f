# make run    the service on http://127.0.0.1:8080, with a SQLite file beside this one
# make test   lint-free tests on SQLite and on a PostgreSQL that they start themselves
# make lint   format, lint and types
# Each makes the virtual environment that it needs.

PYTHON ?= python3.11
PIP = -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint contract clean

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

clean:
	rm -rf .venv .venv-test .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.installed: requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) -r requirements.txt
	@touch $@

.venv-test/.installed: requirements.txt requirements-dev.txt
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/python $(PIP) -r requirements-dev.txt
	@touch $@
