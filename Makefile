# SPDX-License-Identifier: Apache-2.0
# attentiond: `make help` lists what can be done here.
VARIANT ?= release
BUILD := build/$(VARIANT)
CC ?= cc
PKGS_SERVER := libmicrohttpd jansson
WARN := -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
OPT_release := -O2 -g
OPT_debug := -O0 -g3
OPT_asan := -O1 -g -fsanitize=address -fno-omit-frame-pointer
OPT_ubsan := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g -fsanitize=thread
CFLAGS_ALL = -std=c17 -D_GNU_SOURCE -I. -I$(BUILD)/gen -MMD -MP -pthread $(WARN) $(OPT_$(VARIANT)) $(CFLAGS)
LDLIBS_CORE := -lopenblas -lm -pthread

CORE_SRC := $(wildcard core/*.c core/kernels/*.c)
CONFIG_SRC := $(wildcard config/*.c)
SERVER_SRC := $(filter-out server/main.c,$(wildcard server/*.c))
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*/test_*.c))
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

.PHONY: build unit clean
build: build/attentiond

build/attentiond: $(BUILD)/attentiond
	cp $< $@
$(BUILD)/attentiond: $(call obj,server/main.c $(SERVER_SRC) $(CONFIG_SRC)) $(BUILD)/libattention.a
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(shell pkg-config --libs $(PKGS_SERVER)) $(LDLIBS_CORE)
$(BUILD)/libattention.a: $(call obj,$(CORE_SRC))
	rm -f $@ && ar rcs $@ $^
$(BUILD)/tests/core/%: $(BUILD)/obj/tests/unit/core/%.o $(BUILD)/libattention.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(shell pkg-config --libs check) $(LDLIBS_CORE)
$(BUILD)/tests/config/%: $(BUILD)/obj/tests/unit/config/%.o $(call obj,$(CONFIG_SRC))
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(shell pkg-config --libs check) -lm -pthread
$(BUILD)/tests/server/%: $(BUILD)/obj/tests/unit/server/%.o $(call obj,$(SERVER_SRC)) $(BUILD)/libattention.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(shell pkg-config --libs check $(PKGS_SERVER)) $(LDLIBS_CORE)
$(BUILD)/obj/server/number_powers.o: $(BUILD)/gen/number_powers.inc
$(BUILD)/gen/number_powers.inc: tools/generate_powers.c
	@mkdir -p $(@D)
	$(CC) -std=c17 -O1 $(WARN) -o $(@D)/generate_powers $< && $(@D)/generate_powers >$@.part && mv $@.part $@
$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(call obj,$(SERVER_SRC)) $(BUILD)/libattention.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(shell pkg-config --libs $(PKGS_SERVER)) $(LDLIBS_CORE)
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CFLAGS_$(basename $(notdir $<))) -c -o $@ $<

unit: $(TESTS)
	@for t in $(TESTS); do $$t || exit 1; done
clean:
	rm -rf build
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
