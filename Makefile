# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Short commands; meson and ninja do the work in build/.

BUILD := build
.DEFAULT_GOAL := help

help: ## list the commands
	@sed -n 's/^\([a-zA-Z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

deps:
	@tools/install-deps.sh build

unit-deps:
	@tools/install-deps.sh unit

test-deps:
	@tools/install-deps.sh test

$(BUILD)/build.ninja:
	@tools/quietly.sh "Try \`make deps\`, which installs the packages for the build; $(BUILD)/meson-logs has more." \
		meson setup $(BUILD)

build: deps ## build the library and the command
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

# Also build the tests, which include the simulator and the exerciser.
build-tests: unit-deps
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/quietly.sh "Remove $(BUILD)/, and repeat the command." meson configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet

SIZE ?=
demo: build ## compare HugeMap, Linux mmap and the device on a file: SIZE=64M is short
	@$(BUILD)/hugemap bench --quick --demo $(if $(SIZE),--size $(SIZE)) --report $(BUILD)/report.html

bench: build ## run the whole benchmark (long)
	@$(BUILD)/hugemap bench --report $(BUILD)/report.html --json $(BUILD)/report.json

test: test-deps ## build and run every test
	@tools/run-tests.sh

programs: build ## compare real programs with and without hugemap run (long)
	@tools/install-deps.sh programs
	@python3 tests/preload/programs.py

SOAK_MINUTES ?= 60
CONTAINER ?=
soak: build ## run real programs with kills and stops: SOAK_MINUTES=60 SEED=n CONTAINER=1
	@tools/install-deps.sh programs
	@python3 tests/preload/soak.py --minutes $(SOAK_MINUTES) $(if $(SEED),--seed $(SEED)) \
		$(if $(CONTAINER),--container)

SEED ?=
check: test-deps ## check format and prose, lint, fast tests (under a minute)
	@tools/check.sh

AREAS := cache kernel steer preload lib cli python bench docs
check-AREA: ## the same for one area: cache, kernel, steer, preload, lib, cli, python, bench, docs
	@echo "The areas are $(AREAS): make check-cache"

$(AREAS:%=check-%): check-%: test-deps
	@tools/check.sh --area $*

sim: build-tests ## replay one seed of the simulator: make sim SEED=n
	@$(BUILD)/tests/kernel/sim/hugemap-sim-kernel --seed $(or $(SEED),1) --verbose

NODES ?= 2
scale: build-tests ## model the cache on up to 128 processors: NODES=1, 2, 4
	@$(BUILD)/tests/kernel/scale/hugemap-scale --nodes $(NODES)

ACCESSES ?= 2000000
policy: build-tests ## compare page sizes, LRU and an oracle on a billion accesses (long)
	@$(BUILD)/tests/kernel/policy/policy --pools --accesses $(ACCESSES) --json $(BUILD)/policy.json \
		made tests/kernel/policy/traces/*.trace
	@python3 tests/kernel/policy/chart.py $(BUILD)/policy.json $(BUILD)/policy.svg

KERNEL ?=
TEST ?=
module: ## build hugemap.ko for the running kernel, or KERNEL=6.1, 6.12, 7
	@vm/run.py module $(if $(KERNEL),--kernel $(KERNEL))

module-install: ## as root: install hugemap.ko for the running kernel, by dkms if installed
	@tools/install-module.sh $(RELEASE)

vm-deps:
	@tools/install-deps.sh vm

vm: vm-deps ## start a shell in a virtual machine with hugemap mounted at /mnt/fast
	@vm/run.py shell $(if $(KERNEL),--kernel $(KERNEL))

RACE ?=
vm-test: vm-deps ## run the kernel tests in a guest: KERNEL=6.1, 6.12, 7, debug, all; TEST=name; RACE=seed
	@vm/run.py test $(if $(KERNEL),--kernel $(KERNEL)) $(if $(RACE),--race $(RACE)) $(TEST)

vm-bench: vm-deps build ## count instructions of hugemap and Linux mmap in a guest: KERNEL=
	@vm/run.py bench $(if $(KERNEL),--kernel $(KERNEL)) --command-too --json $(BUILD)/vm-bench.json

APPLICATIONS ?=
vm-results: vm-deps build ## count storage applications in a guest, into build/results/, resumable: KERNEL= APPLICATIONS=lmdb
	@vm/run.py bench $(if $(KERNEL),--kernel $(KERNEL)) --applications $(APPLICATIONS) --out $(BUILD)/results

BELOW ?=
GROUP ?=
TESTS ?=
LIMIT ?=
vm-xfstests: vm-deps ## run your xfstests on hugemap in guests: XFSTESTS=DIR KERNEL= BELOW=ext4, xfs GROUP=quick TESTS=
	@vm/run.py xfstests --xfstests "$(or $(XFSTESTS),$(error say where your built xfstests is: XFSTESTS=DIR))" \
		$(if $(KERNEL),--kernel $(KERNEL)) $(if $(BELOW),--below $(BELOW)) $(if $(GROUP),--group $(GROUP)) \
		$(if $(LIMIT),--limit $(LIMIT)) $(TESTS)

results: build ## run the papers' experiments into docs/results.md, resumable (long): SIZE=256M ONLY=name
	@tools/install-deps.sh results
	@/usr/bin/python3 tools/results.py --build $(BUILD) $(if $(SIZE),--size $(SIZE)) $(if $(ONLY),--only $(ONLY))

PREFIX ?= /usr/local
install: build ## install into PREFIX (default /usr/local)
	@if [ -z "$(DESTDIR)" ] && dpkg-query -S /usr/sbin/mount.hugemap >/dev/null 2>&1; then \
		echo "The package hugemap is installed: apt-get remove hugemap first" >&2; exit 1; fi
	@meson configure $(BUILD) --prefix $(PREFIX)
	@meson install -C $(BUILD)
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig

SUITE ?=
deb: ## as root: build packages for Debian 12 and 13 into build/deb/: SUITE=bookworm, trixie
	@[ "$$(id -u)" -ne 0 ] || tools/install-deps.sh deb
	@tools/build_deb.py $(SUITE)

wheel: ## build a wheel of the Python package into build/wheel (with tools from PyPI)
	@tools/build-wheel.sh $(BUILD)/wheel

clean: ## remove the build directory
	@rm -rf $(BUILD)

.PHONY: help deps unit-deps test-deps build-tests module module-install vm-deps vm vm-test vm-bench vm-results vm-xfstests build demo bench test programs soak check check-AREA $(AREAS:%=check-%) sim scale policy results install clean wheel deb
