# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The front door. Everything is built by meson and ninja below build/.

BUILD := build
.DEFAULT_GOAL := help

help: ## what there is to type
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

deps:
	@tools/install-deps.sh build

test-deps:
	@tools/install-deps.sh test

$(BUILD)/build.ninja:
	@meson setup $(BUILD) >/dev/null

build: deps ## build the library and the command
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

demo: build ## map a real file; HugeMap beside Linux mmap and the device
	@$(BUILD)/hugemap bench --quick --demo --report $(BUILD)/report.html

bench: build ## the whole benchmark (long)
	@$(BUILD)/hugemap bench --report $(BUILD)/report.html --json $(BUILD)/report.json

test: test-deps ## build and pass every test
	@tools/run-tests.sh

programs: build ## real programs under hugemap run, beside plain Linux (long)
	@tools/install-deps.sh programs
	@python3 tests/shim/programs.py

SEED ?=
OPS ?=
shim-hunt: build ## a million random operations under hugemap run (a quarter of an hour): SEED=, OPS=
	@SEED=$(SEED) OPS=$(OPS) python3 tests/shim/hunt.py

check: test-deps ## format, lint and the fast tests (under a minute)
	@tools/check.sh

sim: build ## replay one seed of the simulator: make sim SEED=n
	@$(BUILD)/tests/core/sim/hugemap-sim --seed $(or $(SEED),1) --verbose

KERNEL ?=
TEST ?=
module: ## build hugemap.ko for the running kernel, or KERNEL=6.1, 6.12, 7
	@vm/run.py module $(if $(KERNEL),--kernel $(KERNEL))

module-install: ## as root: install hugemap.ko for the running kernel, by dkms if it is there
	@tools/install-module.sh $(RELEASE)

vm-deps:
	@tools/install-deps.sh vm

vm: vm-deps ## a shell in a virtual machine with hugemap mounted at /mnt/fast
	@vm/run.py shell $(if $(KERNEL),--kernel $(KERNEL))

vm-test: vm-deps ## the kernel tests in a guest: KERNEL=6.1, 6.12, 7, debug, all; TEST=name
	@vm/run.py test $(if $(KERNEL),--kernel $(KERNEL)) $(TEST)

vm-bench: vm-deps build ## count instructions in a guest: hugemap beside Linux mmap; KERNEL=
	@vm/run.py bench $(if $(KERNEL),--kernel $(KERNEL)) --command-too --json $(BUILD)/vm-bench.json

PREFIX ?= /usr/local
install: build ## install into PREFIX (default /usr/local)
	@meson configure $(BUILD) --prefix $(PREFIX)
	@meson install -C $(BUILD)
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig

clean: ## remove what was built
	@rm -rf $(BUILD)

.PHONY: help deps test-deps module module-install vm-deps vm vm-test vm-bench build demo bench test programs shim-hunt check sim install clean
