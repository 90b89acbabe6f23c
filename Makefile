# The commands a person needs. Every target does its own set-up: only Rust and Python 3.11 to 3.13 must be there.
#
#   make demo [DATA=folder of JPEGs]   four jobs share one preprocessing; a table at the end
#   make test                          every test, Rust and Python
#   make cases [PYTHON_CASES=file GRAPH_CASES=file]   when two computations are the same: the project's own cases, or others
#   make fuzz [FIRST=0 SEEDS=30 PROGRAMS=300 OTHER_PYTHON=...]   random jobs and programs, edited, cached and not, compared
#   make soak [SECONDS=60]             the daemon killed under its jobs, again and again: nothing wrong, nothing durable lost
#   make crowd [SECONDS=600 CLIENTS=1000 WITHOUT='hoarder ...']   a crowd on one daemon, of which some do not behave: memory, descriptors, times
#   make faults [SEQUENCES=10000 DAMAGES=100000]   every call on a disk fails once, and every bit is flipped: the same
#   make fuzz-rust [SECONDS=60 TARGETS='graph segment ...']   what others can send, led by coverage; wants a nightly toolchain
#   make fuzz-python [SECONDS=60]      the reader of stored values of the Python shim, led by coverage
#   make interleavings [RUNS=100000]   threads of the daemon take turns in every order that is drawn: the same
#   make miri                          what copies without locks, under an interpreter that sees undefined behaviour; wants a nightly toolchain
#   make os-faults                     the daemon's system calls fail, its disk is full or gone, its clock jumps: the same
#   make damage [TRIALS=15]            the same damage done to other caches: a table
#   make owners [OWNERS_ONLY=word]     another user's files, links and sockets in place of a user's; a table; needs root
#   make defects [DEFECTS_ONLY='name ...']   defects put in by hand, one at a time: whether the tests catch each; a table; two hours
#   make peers [PEERS_ONLY='joblib dask']   the tests of other caches and of what jobs are made of, with Prebake in their place; a table
#   make unstable                      whether small programs that use popular packages have the same identity in two processes
#   make test-frameworks               the shims against the real packages, each in an environment of its own
#   make trees OLD=... [TURNS=40] [WARM=0]   what a change costs against another clone in which `make python` ran, by turns
#   make bench [DATA=... TEXT=... AUDIO=...] [QUICK=1]   speed, CPU time and memory, against no cache, memmap and peers; two hours, or eight minutes
#   make adoption [DATA=... AUDIO=... TEXT=...]   public training stacks with one line changed, compared; a table
#   make python                        the wheel, built and installed into .venv
#   make docs                          the documentation as a site, in target/site
#   make lint                          formatting, lints, types of the package and of what users get, licences and bans; and whether the documentation can be built
#   make clean                         all that these made in this folder

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo adoption bench trees cases fuzz fuzz-rust fuzz-python soak crowd faults interleavings miri os-faults damage owners defects peers test test-rust test-python test-torch test-ops test-frameworks unstable python docs lint clean

PYTHON ?= python3
VENV := .venv
BIN := client/python/prebake/bin
REQUIREMENTS := client/python/requirements
WHEELS := target/wheels

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find fingerprint proto daemon client \
    -name '*.rs' -o -name '*.proto' -o -name Cargo.toml)
PYTHON_SOURCES := client/python/pyproject.toml $(shell find client/python/prebake -name '*.py' -o -name '*.pyi' -o -name py.typed)

# Torch and its dependencies take gigabytes and minutes: kept between checkouts, one per lock file and Python.
CACHE_HOME := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
TEST_CACHE := $(or $(PREBAKE_TEST_CACHE),$(CACHE_HOME)/prebake-tests)
TORCH_KEY := $(shell { cat $(REQUIREMENTS)/torch.lock; $(PYTHON) -VV; } | sha256sum | cut -c1-16)
TORCH_VENV := $(TEST_CACHE)/torch-$(TORCH_KEY)

# The frameworks cannot be installed side by side. Each has a lock file, and an environment kept like torch's.
FRAMEWORKS := hf wds ray tf stores
FRAMEWORKS_DIR := client/python/frameworks
framework-venv = $(TEST_CACHE)/$1-$(shell { cat $(FRAMEWORKS_DIR)/$1/requirements.lock; $(PYTHON) -VV; } \
    | sha256sum | cut -c1-16)
# What a framework's tests are to be run by, if not by themselves.
AROUND_ray := $(FRAMEWORKS_DIR)/ray/loopback.sh

# A hundred cold runs take an hour, what people use instead half an hour, a million files minutes.
BENCH_SECONDS_MAX := 9000
# A test that hangs must fail: the longest suite takes 25 minutes on two processors that do nothing else.
SUITE_SECONDS_MAX := 2700
# After so long in one test, show where every thread is.
STACKS_SECONDS := 120
PYTEST := -m pytest -q -o faulthandler_timeout=$(STACKS_SECONDS)
# Many of the tests wait: for a file to be old enough to be trusted, for a process.
SIDE_BY_SIDE := --numprocesses=auto --maxprocesses=4
BOUNDED := timeout --foreground --kill-after=10 $(SUITE_SECONDS_MAX)

demo: python
	$(VENV)/bin/python -m prebake.demo $(if $(DATA),--data '$(DATA)') --out target/demo.json

# What people use instead. The frameworks' environments are the tests'; the loaders' and FFCV's take torch from its own.
# One that cannot be made here is left out, and the report says so.
BENCH := ops/bench
BENCH_LOCKS := $(BENCH)/environments
bench-venv = $(TEST_CACHE)/bench-$1-$(shell { cat $(BENCH_LOCKS)/$1.lock $(REQUIREMENTS)/torch.lock; \
    $(PYTHON) -VV; } | sha256sum | cut -c1-16)
PLOTS_VENV := $(call bench-venv,plots)
PEERS := caches loaders ffcv
PEER_FRAMEWORKS := hf wds ray tf
PEER_VENVS := $(foreach each,$(PEERS),$(each)=$(call bench-venv,$(each))) \
    $(foreach each,$(PEER_FRAMEWORKS),$(each)=$(call framework-venv,$(each)))
WITH_PEERS := $(if $(filter-out 0,$(QUICK)),,yes)
venv-of = $(lastword $(subst =, ,$1))

$(PLOTS_VENV)/.requirements $(foreach each,$(PEERS),$(call bench-venv,$(each))/.requirements): \
    $(TEST_CACHE)/bench-%/.requirements: $(TORCH_VENV)/.requirements
	$(PYTHON) -m venv --clear $(@D)
	echo $(TORCH_VENV)/lib/python3*/site-packages > $$(echo $(@D)/lib/python3*/site-packages)/torch.pth
	if $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    -r $(BENCH_LOCKS)/$(firstword $(subst -, ,$*)).lock; then touch $@; else rm -rf $(@D); fi

bench: python $(TORCH_VENV)/.requirements $(PLOTS_VENV)/.requirements \
    $(if $(WITH_PEERS),$(foreach each,$(PEER_VENVS),$(call venv-of,$(each))/.requirements))
	for venv in $(TORCH_VENV) $(if $(WITH_PEERS),$(call bench-venv,loaders)); do if [[ -d $$venv ]]; then \
	    $$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    $(WHEELS)/*.whl; fi; done
	$(if $(WITH_PEERS),PATH="$$PATH:$$($(BENCH_LOCKS)/redis.sh $(TEST_CACHE))") \
	timeout --foreground --kill-after=10 $(BENCH_SECONDS_MAX) $(VENV)/bin/python $(BENCH)/bench.py \
	    $(if $(DATA),--data '$(DATA)') $(if $(TEXT),--text '$(TEXT)') $(if $(AUDIO),--audio '$(AUDIO)') \
	    --files $(TEST_CACHE)/bench --torch $(TORCH_VENV)/bin/python --plots $(PLOTS_VENV)/bin/python \
	    $(if $(WITH_PEERS),$(foreach each,$(PEER_VENVS),--environment $(each)/bin/python)) --out target/bench.json

TURNS ?= 40
WARM ?= 0

trees: python
	$(VENV)/bin/python $(BENCH)/trees.py --turns $(TURNS) --warm $(WARM) '$(OLD)' .

CASES := client/python/tests/cases

cases: python
	$(BOUNDED) $(VENV)/bin/python $(CASES)/run.py --python '$(or $(PYTHON_CASES),$(CASES)/python.json)' \
	    --graphs '$(or $(GRAPH_CASES),$(CASES)/graphs.json)'

FIRST ?= 0
SEEDS ?= 30
# The whole is 20000, some hours. An interpreter of another version takes half of them.
PROGRAMS ?= 300
OTHER_PYTHON ?=
OTHER_VENV := $(if $(OTHER_PYTHON),$(TEST_CACHE)/other-$(shell { cat $(REQUIREMENTS)/dev.lock; \
    $(OTHER_PYTHON) -VV; } | sha256sum | cut -c1-16))
FUZZ_SECONDS_MAX := 86400

$(if $(OTHER_VENV),$(OTHER_VENV)/.requirements): $(REQUIREMENTS)/dev.lock
	$(OTHER_PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

fuzz: python $(if $(OTHER_VENV),$(OTHER_VENV)/.requirements)
	$(if $(OTHER_VENV),$(OTHER_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --force-reinstall $(WHEELS)/*.whl)
	$(BOUNDED) $(VENV)/bin/python client/python/tests/fuzz/run.py --first $(FIRST) --seeds $(SEEDS)
	timeout --foreground --kill-after=10 $(FUZZ_SECONDS_MAX) $(VENV)/bin/python \
	    client/python/tests/programs/run.py --first $(FIRST) --programs $(PROGRAMS) \
	    $(if $(OTHER_VENV),--python '$(OTHER_VENV)/bin/python') --keep target/fuzz --out target/fuzz.json

# Torch's gigabytes are there already. The tests are of released packages, and kept beside the environments.
PEER_TESTS := client/python/peer_tests
PEER_TESTS_VENV := $(TEST_CACHE)/peers-$(shell { cat $(PEER_TESTS)/requirements.lock $(REQUIREMENTS)/torch.lock; \
    $(PYTHON) -VV; } | sha256sum | cut -c1-16)
PEER_TESTS_SECONDS_MAX := 3000

$(PEER_TESTS_VENV)/.requirements: $(TORCH_VENV)/.requirements
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(PEER_TESTS)/requirements.lock
	echo $(TORCH_VENV)/lib/python3*/site-packages > $$(echo $(@D)/lib/python3*/site-packages)/torch.pth
	touch $@

peers: python $(PEER_TESTS_VENV)/.requirements
	$(PEER_TESTS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    $(WHEELS)/*.whl
	timeout --foreground --kill-after=10 $(PEER_TESTS_SECONDS_MAX) $(PEER_TESTS_VENV)/bin/python \
	    $(PEER_TESTS)/run.py --sources $(TEST_CACHE)/peer-tests --out target/peers.json $(PEERS_ONLY)

SECONDS ?= 60
SOAK_SEED ?= 0
soak: python
	$(VENV)/bin/python ops/soak/soak.py --seconds $(SECONDS) --seed $(SOAK_SEED) --out target/soak.json

# Times are judged here, and in no test. SECONDS is of the crowd alone.
CLIENTS ?= 1000
WITHOUT ?=
RATIO_MAX ?= 2
crowd: python
	$(VENV)/bin/python ops/crowd/crowd.py --seconds $(SECONDS) --clients $(CLIENTS) --without $(WITHOUT) \
	    --ratio-max $(RATIO_MAX) --out target/crowd.json

SEQUENCES ?= 10000
DAMAGES ?= 100000
faults:
	PREBAKE_THOROUGH=1 PREBAKE_SEQUENCES=$(SEQUENCES) PREBAKE_DAMAGES=$(DAMAGES) cargo test --release --locked -p prebake-daemon \
	    --test crash --test damage -- --nocapture

# The rest of the daemon's tests are built without shuttle: its locks work in its runs alone.
RUNS ?= 2000
interleavings:
	PREBAKE_INTERLEAVINGS=$(RUNS) cargo test --locked --workspace --features prebake-daemon/shuttle --test interleavings

# Its threads take turns by a seed, and loads see what memory models allow: each seed another run.
MIRI_SEEDS ?= 32
miri:
	cargo +nightly miri --version >/dev/null || { echo 'not run: wants the component miri of a nightly toolchain'; exit 1; }
	MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-many-seeds=0..$(MIRI_SEEDS)' \
	    cargo +nightly miri test --locked --package prebake-client --lib raw::gather

os-faults: python
	$(BOUNDED) $(VENV)/bin/python ops/faults/faults.py --out target/os-faults.json

# A target that finds nothing new writes nothing: what is kept is what reaches new code.
FUZZ_RUST := fuzz/libfuzzer
TARGETS ?= $(notdir $(wildcard fuzz/corpus/*))
INPUT_BYTES_MAX := 32768
INPUT_SECONDS_MAX := 20
ALLOCATION_MIB_MAX := 64
fuzz-rust:
	rustc +nightly --version >/dev/null || { echo 'not run: coverage wants a nightly toolchain of Rust'; exit 1; }
	cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked --debug cargo-fuzz
	for target in $(TARGETS); do cargo +nightly fuzz run --fuzz-dir $(FUZZ_RUST) $$target fuzz/corpus/$$target -- \
	    -max_total_time=$(SECONDS) -max_len=$(INPUT_BYTES_MAX) -timeout=$(INPUT_SECONDS_MAX) \
	    -malloc_limit_mb=$(ALLOCATION_MIB_MAX) -print_final_stats=1; done

FUZZ_PYTHON := fuzz/python
FUZZ_PYTHON_VENV := $(TEST_CACHE)/fuzz-python-$(shell { cat $(FUZZ_PYTHON)/requirements.lock; $(PYTHON) -VV; } \
    | sha256sum | cut -c1-16)
RSS_MIB_MAX := 2048

$(FUZZ_PYTHON_VENV)/.requirements:
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(FUZZ_PYTHON)/requirements.lock
	touch $@

# What is new is kept beside the seeds, in target: move there what reaches new code.
fuzz-python: python $(FUZZ_PYTHON_VENV)/.requirements
	$(FUZZ_PYTHON_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    $(WHEELS)/*.whl
	mkdir -p target/fuzz-python
	$(FUZZ_PYTHON_VENV)/bin/python $(FUZZ_PYTHON)/target.py target/fuzz-python $(FUZZ_PYTHON)/corpus \
	    -max_total_time=$(SECONDS) -max_len=$(INPUT_BYTES_MAX) -timeout=$(INPUT_SECONDS_MAX) \
	    -rss_limit_mb=$(RSS_MIB_MAX) -artifact_prefix=target/ -print_final_stats=1

# Those that are compared with have environments of their own; torch's gigabytes are there already.
DAMAGE := ops/damage
damage-venv = $(TEST_CACHE)/damage-$1-$(shell { cat $(DAMAGE)/environments/$1.lock $(REQUIREMENTS)/torch.lock; \
    $(PYTHON) -VV; } | sha256sum | cut -c1-16)
DAMAGE_VENVS := $(foreach each,caches tf,$(call damage-venv,$(each)))
TRIALS ?= 15

$(DAMAGE_VENVS:%=%/.requirements): $(TEST_CACHE)/damage-%/.requirements: $(TORCH_VENV)/.requirements
	$(PYTHON) -m venv --clear $(@D)
	$(if $(filter caches-%,$*),echo $(TORCH_VENV)/lib/python3*/site-packages > \
	    $$(echo $(@D)/lib/python3*/site-packages)/torch.pth)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    -r $(DAMAGE)/environments/$(firstword $(subst -, ,$*)).lock
	touch $@

damage: python $(DAMAGE_VENVS:%=%/.requirements)
	$(BOUNDED) $(VENV)/bin/python $(DAMAGE)/damage.py --trials $(TRIALS) \
	    $(foreach each,caches tf,--python $(each)=$(call damage-venv,$(each))/bin/python) --out target/damage.json

OWNERS_SECONDS_MAX := 3600
owners: python
	timeout --foreground --kill-after=10 $(OWNERS_SECONDS_MAX) $(VENV)/bin/python ops/owners/owners.py \
	    $(if $(OWNERS_ONLY),--only '$(OWNERS_ONLY)') --out target/owners.json

# Each is built and taken out again, in a work tree of the last commit.
DEFECTS_SECONDS_MAX := 14400
defects: python
	timeout --foreground --kill-after=60 $(DEFECTS_SECONDS_MAX) $(VENV)/bin/python ops/defects/defects.py \
	    $(if $(DEFECTS_ONLY),--only $(DEFECTS_ONLY)) --venv $(VENV) --out target/defects.json

test: test-rust test-python cases test-torch unstable test-ops

python: $(VENV)/.wheel

$(VENV)/.requirements: $(REQUIREMENTS)/dev.lock
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Prebake needs Python 3.11, 3.12 or 3.13")'
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

$(BIN)/prebaked $(BIN)/prebake &: $(RUST_SOURCES)
	cargo build --release --locked -p prebake-daemon -p prebake-client --bins
	mkdir -p $(BIN)
	for program in prebaked prebake; do \
	    strip --strip-debug -o $(BIN)/$$program target/release/$$program; done

$(VENV)/.wheel: $(VENV)/.requirements $(BIN)/prebaked $(BIN)/prebake $(PYTHON_SOURCES)
	rm -rf $(WHEELS)
	$(VENV)/bin/maturin build --release --locked --strip --manifest-path client/python/Cargo.toml --out $(WHEELS)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/*.whl
	touch $@

test-rust:
	if cargo nextest --version >/dev/null 2>&1; \
	then cargo nextest run --workspace --locked; else cargo test --workspace --all-targets --locked; fi
	cargo test --workspace --doc --locked
	$(MAKE) interleavings

test-python: python
	$(BOUNDED) $(VENV)/bin/python $(PYTEST) $(SIDE_BY_SIDE) -m 'not torch' client/python/tests

$(TORCH_VENV)/.requirements:
	$(PYTHON) -m venv --clear $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    -r $(REQUIREMENTS)/torch.lock
	touch $@

# The tests that need torch, which skip themselves without it.
test-torch: python $(TORCH_VENV)/.requirements
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/*.whl
	$(BOUNDED) $(TORCH_VENV)/bin/python $(PYTEST) $(SIDE_BY_SIDE) -m torch client/python/tests

# What the programs use, beside torch's own environment: the same tests skip in the others what is not there.
UNSTABLE_LOCK := $(REQUIREMENTS)/unstable.lock
UNSTABLE_VENV := $(TEST_CACHE)/unstable-$(shell { cat $(UNSTABLE_LOCK) $(REQUIREMENTS)/torch.lock; $(PYTHON) -VV; } \
    | sha256sum | cut -c1-16)

$(UNSTABLE_VENV)/.requirements: $(TORCH_VENV)/.requirements
	$(PYTHON) -m venv --clear $(@D)
	echo $(TORCH_VENV)/lib/python3*/site-packages > $$(echo $(@D)/lib/python3*/site-packages)/torch.pth
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(UNSTABLE_LOCK)
	touch $@

unstable: python $(UNSTABLE_VENV)/.requirements
	$(UNSTABLE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    $(WHEELS)/*.whl
	$(BOUNDED) $(UNSTABLE_VENV)/bin/python $(PYTEST) -rP client/python/tests/test_unstable.py client/python/tests/test_settings.py

test-frameworks: $(FRAMEWORKS:%=test-framework-%)

define framework-rules
.PHONY: test-framework-$1
$2/.requirements:
	$$(PYTHON) -m venv --clear $2
	$2/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    -r $$(FRAMEWORKS_DIR)/$1/requirements.lock
	touch $$@
test-framework-$1: python $2/.requirements
	$2/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $$(WHEELS)/*.whl
	$$(BOUNDED) $$(AROUND_$1) $2/bin/python $$(PYTEST) $$(SIDE_BY_SIDE) $$(FRAMEWORKS_DIR)/$1
endef
$(foreach each,$(FRAMEWORKS),$(eval $(call framework-rules,$(each),$(call framework-venv,$(each)))))

# Training stacks as people install them: torch's environment and what runs beside it. TensorFlow's is the tests'.
# torchaudio's last release is built for an older torch than the others take, and so has an environment of its own.
ADOPTION := ops/adoption
ADOPTION_LOCKS := $(ADOPTION)/environments
adoption-venv = $(TEST_CACHE)/adoption-$1-$(shell { cat $(ADOPTION_LOCKS)/$1.lock $(REQUIREMENTS)/torch.lock; \
    $(PYTHON) -VV; } | sha256sum | cut -c1-16)
ADOPTION_VENV := $(call adoption-venv,stacks)
AUDIO_VENV := $(call adoption-venv,audio)
TF_VENV := $(call framework-venv,tf)
ADOPTION_SECONDS_MAX := 2000

$(ADOPTION_VENV)/.requirements: $(TORCH_VENV)/.requirements
$(ADOPTION_VENV)/.requirements $(AUDIO_VENV)/.requirements: $(TEST_CACHE)/adoption-%/.requirements:
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    -r $(ADOPTION_LOCKS)/$(firstword $(subst -, ,$*)).lock
	# Torch's gigabytes are there already: only the stacks take it from there.
	$(if $(filter stacks-%,$*),echo $(TORCH_VENV)/lib/python3*/site-packages > \
	    $$(echo $(@D)/lib/python3*/site-packages)/torch.pth)
	touch $@

.PHONY: adoption-environments mutations
adoption-environments: python $(ADOPTION_VENV)/.requirements $(AUDIO_VENV)/.requirements $(TF_VENV)/.requirements
	for venv in $(ADOPTION_VENV) $(AUDIO_VENV) $(TF_VENV); do $$venv/bin/python -m pip install --quiet \
	    --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/*.whl; done

adoption: adoption-environments
	timeout --foreground --kill-after=10 $(ADOPTION_SECONDS_MAX) $(AROUND_ray) $(ADOPTION_VENV)/bin/python \
	    $(ADOPTION)/adoption.py $(if $(DATA),--data '$(DATA)') $(if $(AUDIO),--audio '$(AUDIO)') \
	    $(if $(TEXT),--text '$(TEXT)') --python tf=$(TF_VENV)/bin/python --python audio=$(AUDIO_VENV)/bin/python \
	    --out target/adoption

# One-line edits of each stack's script. The whole is 40 of each, some hours.
EDITS ?= 40
SEED ?=
MUTATIONS_SECONDS_MAX ?= 14400
mutations: adoption-environments
	timeout --foreground --kill-after=10 $$(($(MUTATIONS_SECONDS_MAX) + 600)) $(AROUND_ray) \
	    $(ADOPTION_VENV)/bin/python $(ADOPTION)/mutate.py --edits $(EDITS) $(if $(SEED),--seed $(SEED)) \
	    --seconds $(MUTATIONS_SECONDS_MAX) $(STACKS:%=--only %) --python tf=$(TF_VENV)/bin/python \
	    --python audio=$(AUDIO_VENV)/bin/python --out target/mutations.json

test-ops: python
	PROMETHEUS="$$(ops/tests/prometheus.sh $(TEST_CACHE))" \
	    $(BOUNDED) $(VENV)/bin/python $(PYTEST) ops/tests

RUST_CRATES := fingerprint proto daemon client client/python fuzz

DOCS_VENV := $(TEST_CACHE)/docs-$(shell { cat $(REQUIREMENTS)/docs.lock; $(PYTHON) -VV; } | sha256sum | cut -c1-16)

$(DOCS_VENV)/.requirements:
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(REQUIREMENTS)/docs.lock
	touch $@

# A link that leads nowhere is an error.
docs: $(DOCS_VENV)/.requirements
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet

# A user's file, the stubs of the native module and the types of all that is public are checked as installed.
TYPED := client/python/tests/typed/public.py

lint: python docs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cd client/python; for task in check 'format --check'; do \
	    $(CURDIR)/$(VENV)/bin/ruff $$task --config pyproject.toml . $(CURDIR)/ops; done
	cd client/python; $(CURDIR)/$(VENV)/bin/lint-imports pyproject.toml
	cd client/python; $(CURDIR)/$(VENV)/bin/basedpyright --pythonpath $(CURDIR)/$(VENV)/bin/python
	$(VENV)/bin/mypy --strict --cache-dir target/mypy $(TYPED)
	MYPY_CACHE_DIR=target/mypy $(VENV)/bin/stubtest --allowlist ops/lint/stubs.txt prebake._native
	$(VENV)/bin/python ops/lint/typed.py prebake ops/lint/public.json
	$(VENV)/bin/python ops/lint/circles.py $(RUST_CRATES:%=%/src)
	cargo deny --version >/dev/null 2>&1 || cargo install --quiet --locked --debug cargo-deny
	cargo fetch --locked
	cargo deny --offline check --hide-inclusion-graph -A unused-wrapper bans licenses sources

clean:
	rm -rf target $(VENV) $(BIN)
	find client/python ops -name __pycache__ -o -name .pytest_cache -o -name .ruff_cache | xargs -r rm -rf
