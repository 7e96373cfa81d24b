# Entry points for newcomers. `make demo` and `make test` need no other setup.

SHELL := /bin/sh
CARGO ?= cargo
PROFILE_DIR = $(or $(CARGO_TARGET_DIR),target)/release
FSDYNO = $(PROFILE_DIR)/fsdyno

# The bytes of a program must not depend on the build folder: the compiler replaces the paths of the
# checkout and of cargo's folder.
CARGO_HOME_DIR = $(or $(CARGO_HOME),$(HOME)/.cargo)
# (Encoded, because the path of a checkout may contain spaces; C sources come from cargo's folder.)
REPRODUCIBLE = \
	CARGO_ENCODED_RUSTFLAGS="$$(printf '%s=/fsdyno\037%s=/cargo' \
		'--remap-path-prefix=$(CURDIR)' '--remap-path-prefix=$(CARGO_HOME_DIR)')" \
	CFLAGS="-ffile-prefix-map=$(CARGO_HOME_DIR)=/cargo"

# The agent is built by itself, so that no other crate decides the features of its libraries, and static, so that
# it needs no library of the host. Its bytes are part of the lab identity.
AGENT_TARGET = x86_64-unknown-linux-gnu
AGENT_BUILT = $(or $(CARGO_TARGET_DIR),target)/$(AGENT_TARGET)/agent/fsdyno-agent
AGENT = $(PROFILE_DIR)/fsdyno-agent
TARGET_DIR = $(if $(filter /%,$(CARGO_TARGET_DIR)),$(CARGO_TARGET_DIR),$(CURDIR)/$(or $(CARGO_TARGET_DIR),target))
STATIC = \
	CARGO_ENCODED_RUSTFLAGS="$$(printf '%s=/fsdyno\037%s=/target\037%s=/cargo\037%s\037%s' \
		'--remap-path-prefix=$(CURDIR)' '--remap-path-prefix=$(TARGET_DIR)' \
		'--remap-path-prefix=$(CARGO_HOME_DIR)' -Ctarget-feature=+crt-static -Crelocation-model=static)"
# A running agent is replaced, not written to.
PUT_AGENT = mkdir -p "$(PROFILE_DIR)" && cmp -s "$(AGENT_BUILT)" "$(AGENT)" || \
	{ cp "$(AGENT_BUILT)" "$(AGENT).new" && mv "$(AGENT).new" "$(AGENT)"; }

.PHONY: help build program agent demo test-fast test test-full lint bench docs fuzz setup deb test-deb dist install site

help: ## print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

setup: ## install missing packages
	@scripts/setup.sh

# Both programs at a time: the last step of the agent's build occupies one processor only. They have separate folders,
# which cargo locks, and their cargos do not share make's job slots.
build: ## build the programs, with the same bytes in every checkout
	@$(MAKE) --no-print-directory --jobs=2 agent program

program: setup
	@env -u MAKEFLAGS $(REPRODUCIBLE) $(CARGO) build --release --locked -p fsdyno

agent: setup
	@env -u MAKEFLAGS $(STATIC) $(CARGO) build --profile agent --locked -p fsdyno-agent --target $(AGENT_TARGET)
	@$(PUT_AGENT)

# PREFIX is where programs go, DESTDIR what stands before it.
PREFIX ?= /usr/local

install: build ## install programs, manual pages and completions (PREFIX=/usr/local, DESTDIR=)
	@scripts/stage.sh "$(FSDYNO)" "$(AGENT)" "$(PROFILE_DIR)/stage"
	@install -d "$(DESTDIR)$(PREFIX)" && cp -R "$(PROFILE_DIR)/stage/usr/." "$(DESTDIR)$(PREFIX)" && rm -r "$(PROFILE_DIR)/stage"

deb: build ## make a Debian package in target/release
	@scripts/deb.sh "$(FSDYNO)" "$(AGENT)" "$(PROFILE_DIR)"

test-deb: deb ## install, use and remove the package in a minimal Debian of its own, as root
	@scripts/test_deb.sh "$$(ls -t $(PROFILE_DIR)/fsdyno_*_amd64.deb | head -n 1)"

# The main program, too, without libraries of the host.
dist: build ## make a tarball of static programs, with its checksum
	@$(STATIC) $(CARGO) build --release --locked -p fsdyno --target $(AGENT_TARGET)
	@scripts/dist.sh "$(TARGET_DIR)/$(AGENT_TARGET)/release/fsdyno" "$(AGENT)" "$(PROFILE_DIR)"

site: ## make the documents a site in target/site, with mdBook
	@scripts/site.sh "$(TARGET_DIR)/site"

demo: build ## compare file systems on a modelled server of today; about three minutes
	@"$(FSDYNO)" demo

# The tests have a profile of their own, which compiles faster, and run the agent that `make build` installs.
# Random tests take the same way each time, so that a failure is that of the change; test-full takes new ones.
TESTED = --profile quick --locked --no-fail-fast
WITH_AGENT = FSDYNO_AGENT="$(if $(filter /%,$(AGENT_BUILT)),,$(CURDIR)/)$(AGENT_BUILT)" $(REPRODUCIBLE)
TEST = $(WITH_AGENT) scripts/test.sh "$(CARGO)" $(TESTED) --workspace
TEST_FAST = PROPTEST_RNG_SEED=1 $(WITH_AGENT) $(CARGO) test $(TESTED)

test-fast: agent ## run the tests that need neither the lab nor root
	@$(TEST_FAST) --workspace --lib --bins; code=$$?; $(TEST_FAST) -p fsdyno --test cli || code=$$?; exit $$code

test: agent ## run all tests except the long ones, including the lab's; about 11 min
	@PROPTEST_RNG_SEED=1 $(TEST)

# In addition: all seven file systems under both workloads with three seeds at larger sizes, and once each
# on the kernels 5.10 and 6.12, which are downloaded; a tarball of 100,000 files on ext4 (the original's 725,000
# files take most of an hour and are not tested here). Every spec of
# tests/common/specs.rs, small, under three workloads; newer file systems twice. 200 SIGKILLs take
# six minutes, eight kills of a resumed run in the lab about three more, a cluster of Slurm with one node (as root,
# with slurm-wlm and munge) three, and shared file systems (as root, with mpich, glusterfs-server and -client, moosefs-master,
# -chunkserver and -client, sshfs, openssh-server) ten.
test-full: build ## run the long tests, too; half an hour more
	@FSDYNO_TEST=full $(TEST)

lint: ## check a change: format, clippy, shellcheck
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR scripts/*.sh .ci/run bench/*.sh examples/*/*.sh; \
	else echo "lint: shellcheck is missing, shell scripts are not checked (apt-get install shellcheck)"; fi

bench: build ## measure the numbers that the project guarantees, with a summary; half an hour, as root
	@$(REPRODUCIBLE) $(CARGO) bench --locked -p fsdyno-engine -p fsdyno-report --no-run
	@bench/all.sh "$(FSDYNO)" $(foreach bench,against_bare against_read false_differences,\
		"$$(ls -t $(PROFILE_DIR)/deps/$(bench)-* | grep -v '\.d$$' | head -n 1)")

docs: ## write docs/cli.md and docs/schema from the program, and the verdicts in docs/studies.md from results/
	@FSDYNO_WRITE_DOCS=1 $(REPRODUCIBLE) $(CARGO) test $(TESTED) -p fsdyno --test cli docs::

# Six minutes for each target. The address sanitizer needs a nightly compiler; RUSTC_BOOTSTRAP makes
# the stable one accept its flags, for these builds only.
FUZZ_SECONDS ?= 360

fuzz: ## fuzz archives, configurations, disk requests and logs, traces and imports, six minutes each (FUZZ_SECONDS=60 for less)
	@$(CARGO) fuzz --version >/dev/null 2>&1 || \
	{ echo "fuzz: cargo-fuzz is missing; install it with: cargo install cargo-fuzz --locked" >&2; exit 3; }
	@command -v c++ >/dev/null || \
	{ echo "fuzz: a C++ compiler is missing; install it with: apt-get install g++" >&2; exit 3; }
	@mkdir -p crates/workload/fuzz/found/tar crates/workload/fuzz/found/postmark_config
	@cd crates/workload && RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run tar \
		fuzz/found/tar fuzz/corpus/tar tests/corpus/tar -- \
		-dict=fuzz/tar.dict -max_len=16384 -timeout=5 -rss_limit_mb=1024 \
		-max_total_time=$(FUZZ_SECONDS)
	@cd crates/workload && RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run postmark_config \
		fuzz/found/postmark_config fuzz/corpus/postmark_config tests/corpus/postmark -- \
		-dict=fuzz/postmark_config.dict -max_len=4096 -timeout=5 -rss_limit_mb=1024 \
		-max_total_time=$(FUZZ_SECONDS)
	@mkdir -p crates/disk/fuzz/found/nbd_request crates/disk/fuzz/found/request_log
	@cd crates/disk && for target in nbd_request request_log; do \
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target -- \
			-max_len=4096 -timeout=5 -rss_limit_mb=1024 -max_total_time=$(FUZZ_SECONDS) || exit; \
	done
	@mkdir -p crates/trace/fuzz/found/trace crates/replay/fuzz/found/compile crates/recorder/fuzz/found/import
	@cd crates/trace && RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run trace fuzz/found/trace -- \
		-max_len=16384 -timeout=5 -rss_limit_mb=1024 -max_total_time=$(FUZZ_SECONDS)
	@cd crates/replay && RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run compile fuzz/found/compile -- \
		-max_len=16384 -timeout=20 -rss_limit_mb=1024 -max_total_time=$(FUZZ_SECONDS)
	@cd crates/recorder && RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run import fuzz/found/import fuzz/corpus/import -- \
		-max_len=8192 -timeout=5 -rss_limit_mb=1024 -max_total_time=$(FUZZ_SECONDS)
