# make demo: set up, then learn from 40 labels on this machine's CPU.   make test: set up, then prove it right.
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin

.PHONY: demo test format lint types rooms unit site clean

demo: $(VENV)/installed
	$(RUN)/laplacenet demo

test: lint types rooms unit

lint: $(VENV)/installed
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: $(VENV)/installed
	$(RUN)/mypy

rooms: $(VENV)/installed
	$(RUN)/lint-imports

unit: $(VENV)/installed
	$(RUN)/pytest --numprocesses 2 --dist loadfile

format: $(VENV)/installed
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

site: $(VENV)/installed
	$(RUN)/zensical build --strict

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
