# SPDX-License-Identifier: Apache-2.0
# attentiond: `make help` lists what can be done here. Sources are found by wildcard, so a new .c
# file, unit test or benchmark needs no line in this file; variants differ by one OPT_ row.

VERSION := 0.1.0
VARIANT ?= release
O ?= build
BUILD := $(O)/$(VARIANT)
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
V ?= 0

# ---- tools (CC, CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS from the caller are kept and come last) ----
CC ?= cc
AR ?= ar
PKG_CONFIG ?= pkg-config
PYTHON := $(O)/venv/bin/python
WERROR ?= -Werror
CLANG ?= clang
CLANG_TIDY ?= clang-tidy
CLANG_FORMAT ?= clang-format

# ---- where install puts things; the lower-case names are the GNU ones ----
PREFIX ?= /usr/local
prefix ?= $(PREFIX)
bindir ?= $(prefix)/bin
libdir ?= $(prefix)/lib
includedir ?= $(prefix)/include
mandir ?= $(prefix)/share/man
unitdir ?= $(prefix)/lib/systemd/system
sysconfdir ?= $(if $(filter /usr,$(prefix)),/etc,$(prefix)/etc)
DESTDIR ?=

# ---- flags ----
WARN := -Wall -Wextra -Wpedantic $(WERROR) -Wshadow -Wconversion -Wsign-conversion \
        -Wstrict-prototypes -Wmissing-prototypes -Wvla
HARDEN := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
OPT_release := -O2 -g $(HARDEN)
OPT_debug := -O0 -g3
# A sanitizer's instrumentation rewrites expressions, and gcc then warns about its own work; the other
# variants and clang show what is true of these warnings.
INSTRUMENTED := -O1 -g -fno-omit-frame-pointer -Wno-conversion -Wno-sign-conversion -Wno-maybe-uninitialized
UNDEFINED := -fsanitize=undefined -fno-sanitize-recover=all
OPT_asan := $(INSTRUMENTED) -fsanitize=address $(UNDEFINED)
OPT_ubsan := $(INSTRUMENTED) $(UNDEFINED)
OPT_tsan := $(INSTRUMENTED) -fsanitize=thread
# Counts of clang's, by places in the source: optimisation and copies of a function do not change them.
# The kernels are counted without atomic additions, which would take many times as long; their own
# tests run them in one thread.
OPT_coverage := -O2 -g -fprofile-instr-generate -fcoverage-mapping $(ATOMIC_COUNTS)
ATOMIC_COUNTS := -fprofile-update=atomic
LINK_release := -Wl,-z,relro,-z,now
VARIANTS := $(patsubst OPT_%,%,$(filter OPT_%,$(.VARIABLES)))
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is not one of: $(sort $(VARIANTS)))
endif
OPT = $(OPT_$(VARIANT))
ifeq ($(VARIANT),coverage)
CC := $(CLANG)
endif

# Contraction is off everywhere so that a result's bits do not depend on which multiply-adds a
# compiler chose to fuse; kernels that want FMA say so with intrinsics, or opt in with a row below.
LANGUAGE := -std=c17 -D_GNU_SOURCE -DATTN_VERSION='"$(VERSION)"' -I. -pthread \
            -ffp-contract=off -ffile-prefix-map=$(CURDIR)=.

# pkg-config is asked once, and only by a goal that compiles or links.
# Of libcurl the headers alone: the daemon loads it where it is needed (server/tracing/trace_curl.c).
PKGS := libmicrohttpd gnutls libsystemd jansson openblas zlib libdeflate libzstd libpng freetype2 libcurl
once = $(eval $(1) := $(2))$($(1))
PKG_CFLAGS = $(call once,PKG_CFLAGS,$(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(PKGS))))
LIBS_CORE = $(call once,LIBS_CORE,$(shell $(PKG_CONFIG) --libs openblas) -lm)
LIBS_SERVER = $(call once,LIBS_SERVER,$(shell $(PKG_CONFIG) --libs libmicrohttpd gnutls libsystemd jansson zlib libdeflate libzstd libpng freetype2) -lm)
LIBS_CHECK = $(call once,LIBS_CHECK,$(shell $(PKG_CONFIG) --libs check))

PIC := -fPIE
compile = $(CC) $(LANGUAGE) $(PIC) $(WARN) $(OPT) $(call isa,$<) $(PKG_CFLAGS) -MMD -MP $(CPPFLAGS) $(CFLAGS)
link = $(CC) -pthread -pie $(OPT) $(LINK_$(VARIANT)) $(CFLAGS) $(LDFLAGS)
parallel = $(MAKE) --no-print-directory $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j$(JOBS))
ifeq ($(V)$(findstring s,$(firstword -$(MAKEFLAGS))),0)
say = @printf '  %-4s %s\n' '$(1)' '$@';
endif

# ---- sources ----
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
AVX2 := -mavx2 -mfma -mf16c
AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl $(AVX2)
isa = $(if $(filter %_avx2.c,$(1)),$(AVX2))$(if $(filter %_avx512.c,$(1)),$(AVX512)) \
      $(if $(filter core/convert.c,$(1)),-O3) \
      $(if $(filter core/kernels/rowops_%.c %_avx2.c %_avx512.c %_neon.c,$(1)),-ffp-contract=fast)
OTHER_ISA := $(if $(filter x86_64,$(MACHINE)),,%_avx2.c %_avx512.c) \
             $(if $(filter aarch64,$(MACHINE)),,%_neon.c)
CORE_SRC := $(filter-out $(OTHER_ISA),$(wildcard core/*.c core/kernels/*.c))
CONFIG_SRC := $(wildcard config/*.c)
MAIN_SRC := $(wildcard server/main*.c)
SERVER_SRC := $(filter-out $(MAIN_SRC),$(wildcard server/*.c server/*/*.c))
SUPPORT_SRC := $(wildcard tests/support/*.c)
TEST_SRC := $(wildcard tests/unit/*/test_*.c)
BENCH_MAIN := $(shell grep -l '^int main\>' bench/*.c 2>/dev/null)
BENCH_SHARED := $(filter-out $(BENCH_MAIN),$(wildcard bench/*.c))
# Their figures are docs/reliability.md's, not docs/performance.md's.
BENCH_LOAD := overload tricklers
BENCH_PEERS := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/peers/*.c))
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

CORE := $(BUILD)/libattention.a
CONFIG := $(BUILD)/libconfig.a
SERVER := $(BUILD)/libserver.a
SUPPORT := $(BUILD)/libtestsupport.a
HEADER := $(BUILD)/gen/attention/attention.h
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(TEST_SRC))
BENCHES := $(patsubst %.c,$(BUILD)/%,$(BENCH_MAIN))
DAEMON := $(if $(filter release,$(VARIANT)),$(O)/attentiond,$(BUILD)/attentiond)

# A report of any sanitizer must end the test that met it; what is let through is in the file.
SUPP := suppressions=$(CURDIR)/tests/support
SANITIZE_ubsan := UBSAN_OPTIONS=print_stacktrace=1
SANITIZE_asan := ASAN_OPTIONS=detect_stack_use_after_return=1 $(SANITIZE_ubsan) \
                 LSAN_OPTIONS=$(SUPP)/lsan.supp:print_suppressions=0
SANITIZE_tsan := CK_FORK=no TSAN_OPTIONS=$(SUPP)/tsan.supp:exitcode=66
SANITIZE_coverage := CK_TIMEOUT_MULTIPLIER=10 LLVM_PROFILE_FILE=$(abspath $(BUILD))/raw/%m.profraw
SANITIZE := $(SANITIZE_$(VARIANT))

.PHONY: run test test-all lint build debug asan ubsan tsan tests unit e2e contract fuzz fuzz-replay load mutate bench bench-peers format check-format \
        syntax tidy cppcheck shellcheck page check-page test-browser install uninstall generate clean help setup setup-examples \
        have-packages have-venv FORCE
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

build: $(DAEMON) $(HEADER) ## build the daemon: build/attentiond

# Only the release binary stands at build/attentiond, whatever else was built since.
$(O)/attentiond: $(O)/release/attentiond
	@cp -f $< $@.new && mv -f $@.new $@

debug asan ubsan tsan: ## build that variant's daemon and unit tests under build/<variant>/
	+@$(parallel) VARIANT=$@ $(O)/$@/attentiond tests

# ---- what people run ----
PORT ?= 8080
ARGS ?=
E2E ?= tests/e2e
LOAD ?=
CONTRACT ?=
MUTATE ?=

run: ## install what is missing, build, and start the daemon on 127.0.0.1 (PORT=8080, ARGS=more flags)
	@tools/setup run
	@tools/port-is-free $(PORT)
	+@$(parallel) $(O)/attentiond
	@exec $(O)/attentiond --listen 127.0.0.1:$(PORT) --captures --log errors $(ARGS)

test: ## set up, then run what gives confidence (about ten minutes on two cores)
	@tools/setup test
	+@tools/run-parts tests/parts.txt test

test-all: ## the parts of `make test` and the long ones
	@tools/setup all
	+@tools/run-parts tests/parts.txt test all

lint: ## layering, style, formats, linters, and that generated files are up to date
	@tools/setup lint
	+@tools/run-parts tests/parts.txt lint

tests: $(TESTS)

UNIT ?= %
unit: ## build and run the C unit tests (VARIANT=asan|ubsan|tsan|debug; UNIT=core/test_map for some, SKIP=... for others)
	@test -n "$(TESTS)" || { echo "make unit: there are no tests under tests/unit" >&2; exit 1; }
	+@$(parallel) tests
	@printf '%s\n' $(filter-out $(SKIP:%=$(BUILD)/tests/%),$(filter $(UNIT:%=$(BUILD)/tests/%),$(TESTS))) | $(SANITIZE) xargs -n 1 -P $(JOBS) sh -c '"$$0" || { echo "$$0 failed" >&2; exit 1; }'

e2e: ## build the daemon and test it over HTTP (VARIANT=..., E2E=files, PYTEST_ARGS='-k name')
	+@$(parallel) $(DAEMON)
	$(SANITIZE) ATTENTIOND=$(DAEMON) $(PYTHON) -m pytest -q -p no:cacheprovider -n 2 --dist loadfile $(E2E) $(PYTEST_ARGS)

contract: ## hold the daemon to openapi.yaml with drawn calls (VARIANT=..., CONTRACT='--seed N')
	+@$(parallel) $(DAEMON)
	$(SANITIZE) ATTENTIOND=$(DAEMON) $(PYTHON) tests/contract/run.py $(CONTRACT)

FUZZ ?=
SECONDS ?= 60
fuzz: ## fuzz each target, or FUZZ=names, for SECONDS=60 each, beginning with what was found before
	+@$(parallel) $(O)/fuzz/fuzz $(HEADER)
	@tools/fuzz $(O)/fuzz "$(SECONDS)" $(FUZZ)

fuzz-replay: ## give seeds and old findings to the fuzz targets (VARIANT=asan|ubsan|...)
	+@$(parallel) $(BUILD)/fuzz/fuzz_replay
	@$(PYTHON) tests/fuzz/seeds.py $(O)/fuzz/seeds
	@set -e; for folder in $(O)/fuzz/seeds/* $(wildcard tests/fuzz/found/*); do \
	    $(SANITIZE) $(BUILD)/fuzz/fuzz_replay $$(basename $$folder) $$folder/* && \
	    echo "$$folder: $$(ls $$folder | wc -l) files"; done

TORTURE ?=
.PHONY: torture
torture: ## fail each call of the C library in turn, while serving and at the start (TORTURE='--share 0.05')
	+@$(parallel) $(DAEMON) $(BUILD)/torture/failing.so
	$(SANITIZE) ATTENTIOND=$(DAEMON) FAILING=$(BUILD)/torture/failing.so $(PYTHON) tests/torture/run.py $(TORTURE)

# Tests over HTTP that look at the time may fail while all is counted: make e2e judges them.
COVERAGE ?=
.PHONY: coverage
coverage: ## which branches the tests take (COVERAGE='--missing core/plan.c' says where one was not)
	@rm -rf $(O)/coverage/raw
	+$(MAKE) VARIANT=coverage unit fuzz-replay
	-+$(MAKE) VARIANT=coverage e2e
	+$(MAKE) VARIANT=coverage torture TORTURE='--share 0.03'
	$(PYTHON) tests/coverage.py $(O)/coverage $(COVERAGE)

DEPLOY ?= tests/deploy/test_*.py
.PHONY: test-deploy test-compose test-image-otlp test-image-arm
test-deploy: ## the image, replicas behind HAProxy, the chart, alerts (DEPLOY=files, IMAGE=name of one that is there)
	+@$(parallel) $(DAEMON)
	ATTENTIOND=$(DAEMON) $(PYTHON) -m pytest -q -rs -p no:cacheprovider $(DEPLOY) $(PYTEST_ARGS)

test-compose: DEPLOY = tests/deploy/whole/test_compose_up.py
test-compose: test-deploy ## docker/compose.yaml as it is, by podman-compose, on 8080, 9090 and 9093

test-image-otlp: DEPLOY = tests/deploy/whole/test_image_otlp.py
test-image-otlp: test-deploy ## the image that sends spans, built and asked: two minutes

test-image-arm: DEPLOY = tests/deploy/whole/test_image_arm.py
test-image-arm: test-deploy ## the image for 64-bit ARM, built and asked under qemu: a quarter of an hour (IMAGE_ARM=name)

load: ## many small calls at once, half of them wrong (VARIANT=..., LOAD='--requests N')
	+@$(parallel) $(DAEMON)
	$(SANITIZE) ATTENTIOND=$(DAEMON) $(PYTHON) tests/load.py $(LOAD)

# Long runs: each says with which --seed=... it can be had again.
REQUESTS ?=
CYCLES ?=
DRAINS ?= 100
STRESS = $(REQUESTS:%=--requests=%) $(STRESS_ARGS)
.PHONY: races cycles soak chaos link drains ceiling
races: ## clients that leave, deadlines, drains, reloads at random (VARIANT=tsan REQUESTS=100000)
cycles: STRESS = $(CYCLES:%=--cycles=%) $(STRESS_ARGS)
cycles: ## daemons that start and stop (VARIANT=..., CYCLES=1000)
soak: ## a million mixed requests, one in five hostile; memory must not grow (REQUESTS=1000000)
chaos: STRESS = --seconds=$(SECONDS) $(STRESS_ARGS)
chaos: ## clients behind a bad network, and one beside them that must not notice (SECONDS=60)
link: STRESS = --seconds=$(SECONDS) $(STRESS_ARGS)
link: ## clients behind a narrow link, then a dead one, in a network namespace (SECONDS=60)
races cycles soak chaos link:
	+@$(parallel) $(DAEMON)
	$(SANITIZE) ATTENTIOND=$(DAEMON) $(PYTHON) tests/stress/$@.py $(STRESS)

drains: ## SIGTERM under load, again and again, no request lost (DRAINS=100)
	+@$(parallel) $(DAEMON)
	$(SANITIZE) DRAINS=$(DRAINS) ATTENTIOND=$(DAEMON) $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/e2e/test_drain_load.py

ceiling: ## memory beside the budget, by kind of load, for SECONDS=4 each
	+@$(parallel) $(DAEMON)
	CEILING=$(if $(filter command line,$(origin SECONDS)),$(SECONDS),4) ATTENTIOND=$(DAEMON) $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/e2e/test_ceiling.py

mutate: ## plant faults in a copy of the core, one at a time, that tests must find (MUTATE=...)
	@$(PYTHON) tests/mutate/run.py $(MUTATE)

bench: ## measure all and write docs/performance.md, six to ten minutes (BENCH='numbers kernels' only shows these)
	@test -n "$(BENCHES)" || { echo "make bench: there are no benchmarks under bench" >&2; exit 1; }
	+@$(parallel) $(BENCHES) $(BENCH_PEERS) $(DAEMON)
ifeq ($(BENCH),)
	@$(or $(wildcard $(PYTHON)),python3) bench/report.py --bench $(BUILD)/bench $(filter-out $(BENCH_LOAD),$(notdir $(BENCHES)))
else
	@missed=0; for b in $(BENCH:%=$(BUILD)/bench/%); do echo "== $$b"; $$b || missed=1; done; exit $$missed
endif

# The lock says which bytes they are.
bench-peers: ## install what `make bench` then measures beside ours, ggml and two services, under build/
	@mkdir -p $(O)/peers && cp bench/peers/package.json bench/peers/package-lock.json $(O)/peers
	@npm ci --prefix $(O)/peers --ignore-scripts --no-audit --no-fund
	@python3 -m venv $(O)/bench-venv && $(O)/bench-venv/bin/pip install -q -r bench/encodings/requirements.txt

# ---- linking ----
$(BUILD)/attentiond: $(call obj,$(MAIN_SRC)) $(SERVER) $(CONFIG) $(CORE)
	$(call say,LINK)$(link) -o $@ $^ $(LIBS_SERVER) $(LIBS_CORE) $(LDLIBS)

$(CORE): $(call obj,$(CORE_SRC))
$(CONFIG): $(call obj,$(CONFIG_SRC))
$(SERVER): $(call obj,$(SERVER_SRC))
$(SUPPORT): $(call obj,$(SUPPORT_SRC))
$(CORE) $(CONFIG) $(SERVER) $(SUPPORT): $(BUILD)/sources
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

# Core's tests link nothing of the server's: that they link at all proves the layering.
$(BUILD)/tests/core/%: $(BUILD)/obj/tests/unit/core/%.o $(SUPPORT) $(CORE)
	@mkdir -p $(@D)
	$(call say,LINK)$(link) -o $@ $^ $(LIBS_CHECK) $(LIBS_CORE) $(LDLIBS)
$(BUILD)/tests/config/%: $(BUILD)/obj/tests/unit/config/%.o $(SUPPORT) $(CONFIG) $(CORE)
	@mkdir -p $(@D)
	$(call say,LINK)$(link) -o $@ $^ $(LIBS_CHECK) $(LIBS_CORE) $(LDLIBS)
$(BUILD)/tests/server/%: $(BUILD)/obj/tests/unit/server/%.o $(SUPPORT) $(SERVER) $(CORE)
	@mkdir -p $(@D)
	$(call say,LINK)$(link) -o $@ $^ $(LIBS_CHECK) $(LIBS_SERVER) $(LIBS_CORE) $(LDLIBS)

# Here, above the first rule that depends on them.
GENERATED := $(BUILD)/gen/number_powers.inc $(BUILD)/gen/ramps.inc
DOCUMENTS := openapi.yaml docs/api.html $(wildcard dashboard/dist/*)
PACKED := $(DOCUMENTS:%=$(BUILD)/gen/packed/%.gz)

# Everything is compiled anew by clang, for the fuzzer wants to see each branch; fuzz_replay gives
# files to the same targets in any other build.
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_SHARED := $(filter-out %_libfuzzer.c %_replay.c,$(FUZZ_SRC))
FUZZ_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_ALL := $(filter-out %_replay.c,$(FUZZ_SRC)) tests/support/mask_model.c $(SERVER_SRC) $(CORE_SRC)
FUZZ_OBJ := $(patsubst %.c,$(O)/fuzz/obj/%.o,$(wildcard $(FUZZ_ALL)))
$(O)/fuzz/obj/%.o: %.c $(GENERATED) $(PACKED) $(HEADER)
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CLANG) $(LANGUAGE) $(call isa,$<) $(PKG_CFLAGS) -I$(BUILD)/gen $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<
$(O)/fuzz/fuzz: $(FUZZ_OBJ)
	$(call say,LINK)$(CLANG) -pthread $(FUZZ_FLAGS) -o $@ $^ $(LIBS_SERVER) $(LIBS_CORE)
$(BUILD)/fuzz/fuzz_replay: $(call obj,tests/fuzz/fuzz_replay.c $(FUZZ_SHARED)) $(SUPPORT) $(SERVER) $(CORE)
	@mkdir -p $(@D)
	$(call say,LINK)$(link) -o $@ $^ $(LIBS_CHECK) $(LIBS_SERVER) $(LIBS_CORE) $(LDLIBS)

# It stands in for the C library's functions, so nothing of it is checked or instrumented.
$(BUILD)/torture/failing.so: tests/torture/failing.c tests/torture/failing.h | have-packages
	@mkdir -p $(@D)
	$(call say,LINK)$(CC) $(LANGUAGE) -fPIC -shared $(WARN) -O2 -g -U_FORTIFY_SOURCE -o $@ $<

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(call obj,$(BENCH_SHARED)) $(SERVER) $(CORE)
	@mkdir -p $(@D)
	$(call say,LINK)$(link) -o $@ $^ $(LIBS_SERVER) $(LIBS_CORE) $(LDLIBS)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | have-packages
	@mkdir -p $(@D)
	$(call say,CC)$(compile) -c -o $@ $<

# libattention.a may end up in somebody's shared library.
$(BUILD)/obj/core/%.o: private PIC := -fPIC -fno-semantic-interposition
$(BUILD)/obj/core/kernels/%.o: private OPT = $(filter-out $(ATOMIC_COUNTS),$(OPT_$(VARIANT):-O2=-O3))
$(BUILD)/obj/core/convert.o: private OPT = $(OPT_$(VARIANT):-O2=-O3)
$(BUILD)/obj/server/numbers/%.o: private OPT = $(OPT_$(VARIANT):-O2=-O3)

# The powers of ten behind number text and the colours of maps are computed, not committed.
$(BUILD)/obj/server/numbers/number_powers.o $(BUILD)/obj/server/codecs/codec_png_ramps.o: private override CPPFLAGS += -I$(BUILD)/gen
$(BUILD)/obj/server/numbers/number_powers.o: $(BUILD)/gen/number_powers.inc
$(BUILD)/obj/server/codecs/codec_png_ramps.o: $(BUILD)/gen/ramps.inc
$(BUILD)/gen/number_powers.inc: tools/generate_powers.c
$(BUILD)/gen/ramps.inc: tools/generate_ramps.c
$(GENERATED):
	@mkdir -p $(@D)
	$(call say,GEN)$(CC) -std=c17 -O1 $(WARN) -o $(@D)/$(basename $(<F)) $< -lm && $(@D)/$(basename $(<F)) > $@

# The contract, its page and the dashboard are part of the program: server/documents.c.
$(BUILD)/obj/server/documents.o: private override CPPFLAGS += -I$(BUILD)/gen
$(BUILD)/obj/server/documents.o: $(DOCUMENTS) $(PACKED)
$(BUILD)/gen/packed/%.gz: %
	@mkdir -p $(@D)
	$(call say,GZIP)gzip -9nc $< > $@

# Which commit it is, where that is known: --version says it.
REVISION ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
$(BUILD)/obj/server/main_version.o: private override CPPFLAGS += -I$(BUILD)/gen
$(BUILD)/obj/server/main_version.o: $(BUILD)/gen/revision.inc
$(BUILD)/gen/revision.inc: recorded = "$(REVISION)"

# Rewritten only when what they record has changed: new flags rebuild all, a file that came or went
# rebuilds the archives, and nothing else does.
$(BUILD)/flags: recorded = $(compile) $(link)
$(BUILD)/sources: recorded = $(CORE_SRC) $(CONFIG_SRC) $(SERVER_SRC) $(SUPPORT_SRC)
$(BUILD)/flags $(BUILD)/sources $(BUILD)/gen/revision.inc: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(recorded))' | cmp -s - $@ || \
	    printf '%s\n' '$(subst ','\'',$(recorded))' > $@
FORCE:

# Before anything is built for what then could not run. An environment of `make setup-examples` has no pytest.
NEED_VENV := e2e contract fuzz fuzz-replay torture coverage test-deploy load races cycles soak chaos link drains \
             ceiling mutate test-browser generate
$(NEED_VENV): have-venv
have-venv:
	@test -x $(O)/venv/bin/pytest || { echo "Run 'make setup' first: it installs what tests run with into $(O)/venv." >&2; exit 1; }

have-packages:
	@$(PKG_CONFIG) --exists --print-errors $(PKGS) || \
	    { echo "Run 'make setup' to install what is missing." >&2; exit 1; }

# ---- the dashboard, whose bundle is committed: only who changes it needs Node ----
PAGE_PACKAGES := dashboard/node_modules/.package-lock.json
$(PAGE_PACKAGES): dashboard/package-lock.json
	npm ci --prefix dashboard --ignore-scripts --no-audit --no-fund
	@touch $@

PAGE_FILES = --config .prettierrc.json src build.mjs ../tests/browser
page: $(PAGE_PACKAGES) ## format the dashboard and bundle it into dashboard/dist, which the daemon serves at /
	@cd dashboard && node_modules/.bin/prettier --log-level warn --write $(PAGE_FILES) && node build.mjs

check-page: $(PAGE_PACKAGES) ## check the dashboard's format and types, and its bundle against its source
	@cd dashboard && node_modules/.bin/prettier --log-level warn --check $(PAGE_FILES) && \
	    node_modules/.bin/tsc && node build.mjs --check

BROWSER ?= $(wildcard tests/browser/*.test.mjs)
test-browser: $(PAGE_PACKAGES) ## the dashboard in Chromium against the daemon (BROWSER=files, BRIEF=1, PICTURES=folder)
	+@$(parallel) $(DAEMON)
	ATTENTIOND=$(DAEMON) $(if $(BRIEF),BRIEF=1) PICTURES=$(PICTURES) node --test --test-concurrency=1 --test-reporter=spec $(BROWSER)

generate: $(BUILD)/tools/config_docs ## write the files made from config/options.def and openapi.yaml
	$<
	$(PYTHON) tools/api_page/page.py

$(BUILD)/tools/config_docs: $(call obj,tools/config_docs.c) $(CONFIG)
	@mkdir -p $(@D)
	$(call say,LINK)$(link) -o $@ $^ $(LDLIBS)

# ---- installing ----
# The headers lie under attention/ as they lie here, so that their own "core/..." includes resolve;
# attention/attention.h leads to them. libattention is static: Requires and Libs hold all it needs.
INSTALL ?= install
HEADERS = $(sort $(filter core/%,$(shell $(CC) $(LANGUAGE) -MM core/attention.h)))
dest = $(DESTDIR)$(1)
CONF = $(call dest,$(sysconfdir))/attentiond/attentiond.conf

$(HEADER):
	@mkdir -p $(@D)
	@printf '#include "core/attention.h"\n' > $@

install: $(DAEMON) $(CORE) $(HEADER) ## install the daemon, library, headers, man page, units and example file (PREFIX, DESTDIR)
	@$(INSTALL) -D -m 755 $(DAEMON) $(call dest,$(bindir))/attentiond
	@$(INSTALL) -D -m 644 $(CORE) $(call dest,$(libdir))/libattention.a
	@for h in $(HEADERS); do \
	    $(INSTALL) -D -m 644 $$h $(call dest,$(includedir))/attention/$$h || exit 1; done
	@$(INSTALL) -m 644 $(HEADER) $(call dest,$(includedir))/attention/attention.h
	@$(INSTALL) -d $(call dest,$(libdir))/pkgconfig
	@sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' \
	    -e 's|@version@|$(VERSION)|' core/libattention.pc.in \
	    > $(call dest,$(libdir))/pkgconfig/libattention.pc
	@$(INSTALL) -D -m 644 docs/attentiond.1 $(call dest,$(mandir))/man1/attentiond.1
	@$(INSTALL) -D -m 644 docker/systemd/attentiond.socket $(call dest,$(unitdir))/attentiond.socket
	@sed -e 's|@bindir@|$(bindir)|' -e 's|@sysconfdir@|$(sysconfdir)|' docker/systemd/attentiond.service.in \
	    > $(call dest,$(unitdir))/attentiond.service
	@test -e $(CONF) || $(INSTALL) -D -m 644 config/attentiond.conf $(CONF)
	@echo 'installed $(call dest,$(bindir))/attentiond, libattention with its header, the man page and the units;' \
	    'every option is in $(CONF)'

# Folders that install may have made below those that every system has; rmdir leaves what is in use.
LEFT_EMPTY = $(dir $(CONF)) $(call dest,$(libdir))/pkgconfig $(call dest,$(mandir))/man1 \
             $(call dest,$(unitdir)) $(patsubst %/,%,$(dir $(call dest,$(unitdir))))

uninstall: ## remove what install put there; a configuration that was changed stays
	@rm -f $(call dest,$(bindir))/attentiond $(call dest,$(libdir))/libattention.a \
	    $(call dest,$(libdir))/pkgconfig/libattention.pc $(call dest,$(mandir))/man1/attentiond.1 \
	    $(call dest,$(unitdir))/attentiond.socket $(call dest,$(unitdir))/attentiond.service
	@rm -rf $(call dest,$(includedir))/attention
	@if cmp -s config/attentiond.conf $(CONF); then rm -f $(CONF); fi
	@rmdir $(LEFT_EMPTY) 2>/dev/null || true
	@if [ -e $(CONF) ]; then echo 'removed; $(CONF), which was changed, stays'; else echo removed; fi

.PHONY: dist deb
dist: ## what is committed as build/attentiond-VERSION.tar.gz
	@mkdir -p $(O)
	@git archive --prefix=attentiond-$(VERSION)/ HEAD | gzip -n9 > $(O)/attentiond-$(VERSION).tar.gz
	@echo $(O)/attentiond-$(VERSION).tar.gz

deb: ## Debian packages of what is committed, under build/deb (needs debhelper)
	@tools/make-deb $(VERSION) $(O)/deb

CONTAINER ?= docker
.PHONY: image image-arm64
image: ## build the container image attentiond (CONTAINER=podman)
image-arm64: ## the one for 64-bit ARM, attentiond:arm64; elsewhere under qemu, a quarter of an hour
image-arm64: IMAGE_OPTIONS = --platform linux/arm64 -t attentiond:arm64
IMAGE_OPTIONS = -t attentiond
image image-arm64:
	$(CONTAINER) build -f docker/Dockerfile $(IMAGE_OPTIONS) --build-arg VERSION=$(VERSION) \
	    --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) .

# ---- formats and linters ----
C_FILES = $(shell git ls-files '*.c' '*.h' 2>/dev/null)
C_CHECKED = $(filter-out $(OTHER_ISA:%=core/kernels/%),$(filter %.c,$(C_FILES)))
SCRIPTS = $(shell git ls-files | xargs awk 'FNR == 1 && /^\#!.*sh$$/ { print FILENAME } { nextfile }')
checking = $(LANGUAGE) $(WARN) $(call isa,$<) $(PKG_CFLAGS) -I$(BUILD)/gen

format: ## format every C file in place
	@$(CLANG_FORMAT) -i $(C_FILES)

check-format: ## fail when a C file is not as `make format` leaves it
	@$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)

syntax: $(C_CHECKED:%=$(BUILD)/syntax/%) ## compile every C file with clang's warnings, writing nothing
tidy: $(C_CHECKED:%=$(BUILD)/tidy/%) ## run clang-tidy over every C file
$(BUILD)/syntax/%.c: %.c $(GENERATED) $(BUILD)/gen/revision.inc $(HEADER) FORCE
	@$(CLANG) -fsyntax-only $(checking) $<
$(BUILD)/tidy/%.c: %.c $(GENERATED) $(BUILD)/gen/revision.inc $(HEADER) FORCE
	@mkdir -p $(@D)
	@$(CLANG_TIDY) --quiet $< -- $(checking) >$@.log 2>&1 || { cat $@.log; exit 1; }

cppcheck:
	cppcheck -q -j$(JOBS) --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --error-exitcode=1 --suppressions-list=tests/cppcheck.supp -D_GNU_SOURCE -I. -I$(BUILD)/gen \
	    $(filter-out tests/%,$(C_CHECKED))

shellcheck:
	shellcheck $(SCRIPTS)

setup: ## install everything that building, testing and linting need
	tools/setup all

setup-examples: ## install what the examples in Python run with, into build/venv
	tools/setup examples

clean: ## remove everything built here (build/venv stays; rm -rf build removes it too)
	find $(O) -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} + 2>/dev/null || true

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9 -]*\):[^#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	    while IFS='|' read -r names text; do printf '  %-22s %s\n' "$$names" "$$text"; done
	@echo 'benchmarks:'
	@sed -n 's/^ [*]   make \(bench BENCH=[a-z0-9]*\): \(.*\)/\1|\2/p' $(BENCH_MAIN) | \
	    while IFS='|' read -r names text; do printf '  %-22s %s\n' "$$names" "$$text"; done

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
