# make report | make test | make test-all | make lint | make gpu-test | make slurm-test | make tables
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --no-deps
# Snakemake's executor, which no other target needs; what it needs besides is in the lock file
SLURM := snakemake-executor-plugin-slurm==2.8.0 snakemake-executor-plugin-slurm-jobstep==0.6.1 throttler==1.2.3
export OMP_NUM_THREADS ?= 1
# hundreds of processes import the same files: bytecode is kept, also where the shell says otherwise
unexport PYTHONDONTWRITEBYTECODE
# three tests on two cores: some wait for what has to hang or to be killed
SIDE_BY_SIDE := -n 3 --dist loadscope --no-loadscope-reorder

report: $(READY)  ## the main job: every configured workload, ending in reports/index.html
	$(BIN)/snakemake --quiet rules
	@for page in reports/index.html reports/*/tiny-*/index.html; do test ! -e "$$page" || echo "report: $$page"; done

test: $(READY)  ## the tests, but for those that take minutes and those of studies that no change since origin/main concerns
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" --changed-studies

test-all: $(READY)  ## all of them
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

lint: $(READY)  ## style, types, layers, workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

gpu-test: $(READY)  ## the tests that need an NVIDIA GPU, and what this machine can resolve
	$(BIN)/python -m pytest -m gpu
	$(BIN)/phasewise doctor

slurm-test: $(READY)  ## a project through a Slurm cluster of this one machine; root, Debian, some minutes
	apt-get update --quiet=2
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends slurm-wlm munge
	$(BIN)/python -m pip install --quiet --no-deps $(SLURM)
	$(BIN)/python -m pytest -m slurm

tables: $(READY)  ## renew what is generated: the README and docs
	$(BIN)/phasewise report --readme README.md
	$(BIN)/python -m phasewise.analyse.catalogue docs/findings.md
	$(BIN)/python -m phasewise.stats.campaign --into docs/measurement.md
	$(BIN)/python -m phasewise.match.schema docs/judge.schema.json
	$(BIN)/python -m phasewise_studies.links

$(READY): requirements.lock pyproject.toml src/phasewise_studies/pyproject.toml
	test -x $(BIN)/python || $$(command -v $(PYTHON) || command -v python3) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip setuptools
	# the lock names everything, so nothing is resolved, and torch unpacks beside the rest
	# not compiled, which takes a minute: what is used is compiled on first use
	$(INSTALL) $$(grep '^torch==' requirements.lock) & torch=$$!; \
	grep -v '^torch==' requirements.lock | $(INSTALL) -r /dev/stdin && wait $$torch
	$(BIN)/python -m pip install --quiet --no-deps --editable . --editable src/phasewise_studies
	touch $(READY)

.PHONY: report test test-all lint gpu-test slurm-test tables
