# What a newcomer types. `make demo` and `make test` are all the set-up there is.

SHELL := /bin/sh
CARGO ?= cargo
PROFILE_DIR = $(or $(CARGO_TARGET_DIR),target)/release
FSDYNO = $(PROFILE_DIR)/fsdyno

# The agent is part of a lab's identity, so its bytes must not depend on where they were built:
# the paths of the checkout and of cargo's folder are replaced in all that the compiler writes.
CARGO_HOME_DIR = $(or $(CARGO_HOME),$(HOME)/.cargo)
# (Encoded, because a checkout may lie in a folder with spaces; C sources come from cargo's folder.)
REPRODUCIBLE = \
	CARGO_ENCODED_RUSTFLAGS="$$(printf '%s=/fsdyno\037%s=/cargo' \
		'--remap-path-prefix=$(CURDIR)' '--remap-path-prefix=$(CARGO_HOME_DIR)')" \
	CFLAGS="-ffile-prefix-map=$(CARGO_HOME_DIR)=/cargo"

.PHONY: help build as-built demo test test-full lint bench docs fuzz setup

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

setup: ## install what is missing
	@scripts/setup.sh

build: setup ## the program, the same bytes from every checkout
	@$(REPRODUCIBLE) $(CARGO) build --release --locked

demo: build ## compare real file systems on a modelled disk; about five minutes
	@scripts/demo.sh "$(FSDYNO)"

# The lab's tests run the program that users run, for the lab's digits belong to its bytes. It is put
# aside, because cargo builds another in its place for the tests, with what they ask of its libraries.
AS_BUILT = FSDYNO_PROGRAM="$(abspath $(PROFILE_DIR))/fsdyno-as-built"

as-built: build
	@cp "$(FSDYNO)" "$(PROFILE_DIR)/fsdyno-as-built"

test: as-built ## all tests but the long ones, the lab's too; under 25 minutes
	@$(AS_BUILT) $(REPRODUCIBLE) $(CARGO) test --release --locked --workspace --no-fail-fast

# On top: all seven file systems under both workloads with three seeds at larger sizes, and once each
# on the kernels 5.10 and 6.12, which are downloaded; a tarball of 100,000 files on ext4. The 725,000
# files of the original would take most of an hour and are left to a run by hand. Every spec of
# tests/common/specs.rs, small, under three workloads; those that came after the seven twice. 200 SIGKILLs take
# six minutes, eight kills of a run in the lab that goes on each time some three more.
test-full: as-built ## the long tests too; half an hour more
	@FSDYNO_TEST=full $(AS_BUILT) $(REPRODUCIBLE) $(CARGO) test --release --locked --workspace --no-fail-fast

lint: ## what a change must pass: format, clippy, shellcheck
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR scripts/*.sh .ci/run bench/*.sh examples/*/*.sh; \
	else echo "lint: no shellcheck here, shell scripts were not looked at (apt-get install shellcheck)"; fi

bench: build ## the numbers that the project promises, with a summary; half an hour, as root
	@$(REPRODUCIBLE) $(CARGO) bench --locked -p fsdyno-engine -p fsdyno-report --no-run
	@bench/all.sh "$(FSDYNO)" $(foreach bench,against_bare against_read false_differences,\
		"$$(ls -t $(PROFILE_DIR)/deps/$(bench)-* | grep -v '\.d$$' | head -n 1)")

docs: ## docs/cli.md from the program's own help, and the verdicts in docs/studies from results/
	@FSDYNO_WRITE_DOCS=1 $(REPRODUCIBLE) $(CARGO) test --release --locked -p fsdyno --test docs

# Six minutes for each target. The address sanitizer is for nightly compilers only; RUSTC_BOOTSTRAP lets
# the stable one take its flags, for these builds alone.
FUZZ_SECONDS ?= 360

fuzz: ## hostile archives, configurations, disk requests and logs, six minutes each (FUZZ_SECONDS=60 for less)
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
