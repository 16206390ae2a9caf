# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The front door. Everything is built by meson and ninja below build/.

BUILD := build
.DEFAULT_GOAL := help

help: ## what there is to type
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

deps:
	@tools/install-deps.sh build

unit-deps:
	@tools/install-deps.sh unit

test-deps:
	@tools/install-deps.sh test

$(BUILD)/build.ninja:
	@tools/quietly.sh "\`make deps\` installs what the build needs; $(BUILD)/meson-logs has more." \
		meson setup $(BUILD)

build: deps ## build the library and the command
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

# The tests, too: the simulator and the exerciser are among them.
build-tests: unit-deps
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/quietly.sh "Remove $(BUILD)/, and type the same again." meson configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet

SIZE ?=
demo: build ## map a real file; HugeMap beside Linux mmap and the device: SIZE=64M is short
	@$(BUILD)/hugemap bench --quick --demo $(if $(SIZE),--size $(SIZE)) --report $(BUILD)/report.html

bench: build ## the whole benchmark (long)
	@$(BUILD)/hugemap bench --report $(BUILD)/report.html --json $(BUILD)/report.json

test: test-deps ## build and pass every test
	@tools/run-tests.sh

programs: build ## real programs under hugemap run, beside plain Linux (long)
	@tools/install-deps.sh programs
	@python3 tests/preload/programs.py

SOAK_MINUTES ?= 60
soak: build ## the same, two at a time, killed and stopped: SOAK_MINUTES=60 SEED=n
	@tools/install-deps.sh programs
	@python3 tests/preload/soak.py --minutes $(SOAK_MINUTES) $(if $(SEED),--seed $(SEED))

SEED ?=
check: test-deps ## format, lint and the fast tests (under a minute)
	@tools/check.sh

sim: build-tests ## replay one seed of the simulator: make sim SEED=n
	@$(BUILD)/tests/kernel/sim/hugemap-sim-kernel --seed $(or $(SEED),1) --verbose

NODES ?= 2
scale: build-tests ## a model of up to 128 processors: what limits the core there: NODES=1, 2, 4
	@$(BUILD)/tests/kernel/scale/hugemap-scale --nodes $(NODES)

ACCESSES ?= 2000000
policy: build-tests ## a billion accesses, made and recorded: page=auto beside 2M, 4K, LRU, an oracle (long)
	@$(BUILD)/tests/kernel/policy/policy --pools --accesses $(ACCESSES) --json $(BUILD)/policy.json \
		made tests/kernel/policy/traces/*.trace
	@python3 tests/kernel/policy/chart.py $(BUILD)/policy.json $(BUILD)/policy.svg

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

RACE ?=
vm-test: vm-deps ## the kernel tests in a guest: KERNEL=6.1, 6.12, 7, debug, all; TEST=name; RACE=seed
	@vm/run.py test $(if $(KERNEL),--kernel $(KERNEL)) $(if $(RACE),--race $(RACE)) $(TEST)

vm-bench: vm-deps build ## count instructions in a guest: hugemap beside Linux mmap; KERNEL=
	@vm/run.py bench $(if $(KERNEL),--kernel $(KERNEL)) --command-too --json $(BUILD)/vm-bench.json

PREFIX ?= /usr/local
install: build ## install into PREFIX (default /usr/local)
	@if [ -z "$(DESTDIR)" ] && dpkg-query -S /usr/sbin/mount.hugemap >/dev/null 2>&1; then \
		echo "The package hugemap is installed: apt-get remove hugemap first" >&2; exit 1; fi
	@meson configure $(BUILD) --prefix $(PREFIX)
	@meson install -C $(BUILD)
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig

SUITE ?=
deb: ## packages for Debian 12 and 13 into build/deb/, or SUITE=bookworm, trixie (as root)
	@[ "$$(id -u)" -ne 0 ] || tools/install-deps.sh deb
	@tools/build_deb.py $(SUITE)

wheel: ## a wheel of the Python package to carry elsewhere, into build/wheel (tools come from PyPI)
	@tools/build-wheel.sh $(BUILD)/wheel

clean: ## remove what was built
	@rm -rf $(BUILD)

.PHONY: help deps unit-deps test-deps build-tests module module-install vm-deps vm vm-test vm-bench build demo bench test programs soak check sim scale policy install clean wheel deb
