# SPDX-License-Identifier: Apache-2.0
#
# The verbs of this project. CMake does the building; see docs/HACKING.md.
.PHONY: help demo figure reproduce site check test test-full build bench multicore docs asan tsan
.PHONY: fuzz fidelity deb wheel sbom aarch64 aarch64-deb coverage soak emulators setup clean
.PHONY: valkey valkey-test valkey-deb
.DEFAULT_GOAL := help

RUBATO := build/release/bin/rubato
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
SEEDS ?= 100000
VIRTUAL := runtime kv rpc wait cores loops
FIG ?= list

help:
	@echo 'make demo    what scans do to GETs, with and without Rubato (3 minutes after the build)'
	@echo 'make figure  the demo, whose figure then replaces that of the README; on a quiet machine'
	@echo 'make reproduce FIG=ID   a figure of a paper, QUICK=1 in short; without FIG: which there are'
	@echo 'make site    the simulator as a page: build/site/index.html, or `rubato lab open`'
	@echo 'make check   in minutes: what a change to a policy, the simulator or a command can break'
	@echo 'make test    every test, sanitizers, every fuzz target and benchmark for a moment'
	@echo 'make test-full   more of it, for hours: see CONTRIBUTING.md'
	@echo 'make build   $(RUBATO)'
	@echo 'make bench   the benchmarks, in full'
	@echo 'make multicore   throughput and tail against workers, on 4 to 128 cores; QUICK=1 in short'
	@echo 'make fidelity   live against simulated in virtual time, again; LONG=1: a million requests'
	@echo 'make docs    the documentation as a site, build/docs/html/index.html'
	@echo 'make asan    all tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make tsan    all tests under ThreadSanitizer'
	@echo 'make fuzz    each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make deb     Debian packages in build/deb (needs debhelper and lintian)'
	@echo 'make wheel   the lab with the simulator inside, for pip: build/wheel (docs/LAB.md)'
	@echo 'make aarch64   cross-built, tested under an emulator: see docs/HACKING.md'
	@echo 'make aarch64-deb   Debian packages for it, in build/arm64-deb; as root'
	@echo 'make valkey   Valkey with the scheduler inside: build/valkey/valkey-server (docs/VALKEY.md)'
	@echo 'make valkey-test   its tests: ours, and parts of its own suite; TESTS=all: all of that'
	@echo 'make valkey-deb   its Debian package, build/valkey-deb (needs debhelper and lintian)'
	@echo 'make sbom    what the release build consists of, as SPDX: build/rubato.spdx.json'
	@echo 'make coverage   lines of each pure folder that its tests run; fails under 95 %'
	@echo 'make soak    runtime, RPC and kv server in virtual time, SEEDS=$(SEEDS) of each policy'
	@echo 'make emulators   the kernel modules, in QEMU and Bochs (the first time minutes and 250 MB)'
	@echo 'make setup   installs the Debian packages all this needs'

setup:
	@tools/setup.sh

build: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target rubato_cli -j $(JOBS)

demo: build
	@python3 tools/demo.py

figure: build
	@python3 tools/demo.py --figure docs/img/get-latency-ccdf.svg

reproduce: build
	@python3 tools/reproduce.py $(FIG) $(if $(QUICK),--quick)

site:
	@JOBS=$(JOBS) tools/site.sh

check: setup
	@JOBS=$(JOBS) tools/check.sh

test: setup
	@JOBS=$(JOBS) tools/test.sh

test-full:
	@FULL=1 SITE=1 tools/setup.sh
	@JOBS=$(JOBS) FULL=1 tools/test.sh
	@$(MAKE) valkey-test ASAN=1

bench: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target benches -j $(JOBS)
	@for bench in build/release/benchmarks/*; do "$$bench" || exit 1; done

# The tables of docs/FIDELITY.md; LONG=1: a million requests of each policy with 8 workers.
fidelity: build
	@cmake --preset virtual >/dev/null
	@cmake --build --preset virtual --target rubato_virtual_cli -j $(JOBS)
	@python3 tools/virtual_fidelity.py $(if $(LONG),--long,--write) --jobs $(JOBS) \
	  build/virtual/bin/rubato-virtual
	@python3 tools/virtual_fidelity.py --explain build/release/bin/rubato --jobs $(JOBS)

multicore: build
	@python3 bench/multicore.py $(if $(QUICK),--quick) $(if $(FORCE),--force)

deb: setup
	@tools/deb.sh

wheel: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target rubato_lab_cli -j $(JOBS)
	@python3 tools/wheel.py

aarch64: build
	@FULL=1 tools/setup.sh
	@JOBS=$(JOBS) tools/aarch64.sh $(RUBATO)

aarch64-deb:
	@FULL=1 tools/setup.sh
	@tools/deb.sh --arm64

valkey: setup
	@JOBS=$(JOBS) tools/valkey.sh

valkey-test: valkey
	@JOBS=$(JOBS) ASAN=$(ASAN) tools/valkey_test.sh $(TESTS)

valkey-deb: setup
	@tools/deb.sh --valkey

sbom: build
	@python3 tools/sbom.py --build build/release --output build/rubato.spdx.json

docs: setup
	@mkdir -p build/docs
	@doxygen docs/Doxyfile
	@echo build/docs/html/index.html

asan tsan: setup
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@ -j $(JOBS)

fuzz: setup
	@cmake --preset fuzz -DRUBATO_FUZZ_SECONDS=$(FUZZ_SECONDS) >/dev/null
	@cmake --build --preset fuzz --target fuzzers fuzzers_whole -j $(JOBS)
	@ctest --test-dir build/fuzz --output-on-failure

# The folders that are pure: nothing in them waits, sends or starts anything.
PURE := base workload policy sched sim overload metrics
coverage: setup
	@cmake --preset coverage >/dev/null
	@cmake --build --preset coverage -j $(JOBS) --target $(PURE:%=tests_%)
	@find build/coverage -name '*.gcda' -delete
	@ctest --test-dir build/coverage -j $(JOBS) --output-on-failure -LE '^late$$' \
	  -L "^($$(echo $(PURE) | tr ' ' '|'))$$"
	@tools/coverage.py build/coverage --least 95 $(PURE:%=src/%)

soak: setup
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j $(JOBS) --target $(foreach part,$(VIRTUAL),virtual_$(part)_test)
	@for part in $(VIRTUAL); do seq 0 $$(($(JOBS) - 1)) \
	  | RUBATO_SEEDS=$(SEEDS) GTEST_TOTAL_SHARDS=$(JOBS) xargs -P $(JOBS) -I{} env \
	    GTEST_SHARD_INDEX={} build/tsan/src/virtual/virtual_$${part}_test --gtest_brief=1 \
	  || exit 1; done

# Each says why where it skips (77).
emulators:
	@native/kmod/test/run.sh . build/native/kmod || [ $$? -eq 77 ]
	@native/uintr/test/run.sh . build/native/uintr || [ $$? -eq 77 ]

clean:
	rm -rf build
