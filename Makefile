# Everything here can be run on a bare machine with rustup: what else is needed is
# installed or named by .ci/setup. `make help` lists the targets.

SHELL := /bin/sh
.NOTPARALLEL:
.DEFAULT_GOAL := help

# rustup does not change the PATH of a shell that is already there.
export PATH := $(PATH):$(HOME)/.cargo/bin

CARGO ?= cargo
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
ARCHS ?= x86_64 aarch64

.PHONY: help setup demo test lint fmt doc unit bench deny vdso guests fuzz clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## install the packages that the build needs, or say which
	@.ci/setup

demo: setup ## build, then profile the demo guest on both architectures
	$(CARGO) build --locked --release -p emu
	@mkdir -p $(TARGET)/demo
	@set -e; for arch in $(ARCHS); do \
		echo; echo "== demo on $$arch"; \
		$(TARGET)/release/emu run --arch $$arch -o $(TARGET)/demo/$$arch.perf.data demo; \
	done
	@echo; echo "The profiles, for perf report -i FILE and anything else that reads perf.data:"
	@for arch in $(ARCHS); do echo "  $(TARGET)/demo/$$arch.perf.data"; done

# One profile for everything: unicorn is C and takes minutes to build, so it is built
# once. The test runner comes last, so that its summary closes the output.
test: setup lint doc unit ## check format, lints and documentation, then run all tests

lint: setup ## check the format; clippy, with warnings as errors
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings

doc: setup ## build the documentation, with warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --release --workspace --no-deps

unit: setup ## run all tests and nothing else
	$(CARGO) build --locked --release -p emu
	$(CARGO) test --locked --release --workspace

fmt: ## format the code
	$(CARGO) fmt --all

bench: setup ## measure the speed of the emulator and of the profiler
	$(CARGO) build --locked --release -p tests --bin bench
	$(TARGET)/release/bench

deny: ## check the dependencies' licences (deny.toml), if cargo-deny is there
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check bans licenses sources; \
	else echo "cargo-deny is not installed:  cargo install --locked cargo-deny"; fi

vdso: ## rebuild the checked-in vDSO images (needs gcc for both architectures)
	emu/vdso/build.sh

guests: ## rebuild the checked-in guest programs (see guests/build.sh)
	guests/build.sh

FUZZ ?= elf
fuzz: setup ## fuzz one parser with cargo-fuzz: make fuzz FUZZ=elf
	$(CARGO) +nightly fuzz run --fuzz-dir tests/fuzz $(FUZZ)

clean: ## remove everything that was built
	$(CARGO) clean
