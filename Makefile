# SPDX-License-Identifier: GPL-2.0-or-later
#
# make demo            the main job, shown on a real guest
# make check           the tests (unit, fuzz corpora, static checks, guests)
# make help            everything else
#
# V=1 shows commands; SAN=address,undefined builds with sanitizers beside the
# plain build; JOBS=N.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:

CC ?= gcc
BUILD ?= build$(if $(SAN),-san)
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

VERSION := 0.1.0
CPPFLAGS += -D_GNU_SOURCE -DVMDEFRAG_VERSION='"$(VERSION)"' -Iinclude -Idaemon \
	-Ikvm
CFLAGS ?= -O2 -g
CFLAGS += -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wformat=2 -fstack-protector-strong
# CI sets it; elsewhere a newer compiler's new warning must not stop a build.
ifdef WERROR
CFLAGS += -Werror
endif
ifdef SAN
CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SAN)
else
# glibc has no checks for what the sanitizers replace
CPPFLAGS += -D_FORTIFY_SOURCE=2
endif

COMMON_SRC := $(wildcard common/*.c)
KVM_SRC := $(wildcard kvm/*.c)
DAEMON_SRC := $(filter-out daemon/ctl%.c,$(wildcard daemon/*.c))
CTL_SRC := $(wildcard daemon/ctl*.c)
AGENT_SRC := $(wildcard guest-agent/*.c)
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

DAEMON_LIBS := -linih -ljansson -luring -lcap-ng -lsystemd -lnuma
AGENT_LIBS := -linih -ljansson
# The agent must run in any guest; sanitizers need a dynamic one.
AGENT_LDFLAGS := $(if $(SAN),,-static)

PROGRAMS := $(BUILD)/daemon/vmdefragd $(BUILD)/daemon/vmdefragctl \
	$(BUILD)/guest-agent/vmdefrag-agent

all: $(PROGRAMS)

$(BUILD)/obj/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

define archive
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
endef

# What programs and tests share; main.o stays out.
$(BUILD)/libcommon.a: $(call obj,$(COMMON_SRC))
	$(archive)
$(BUILD)/libkvm.a: $(call obj,$(KVM_SRC))
	$(archive)
$(BUILD)/libdaemon.a: $(call obj,$(filter-out daemon/main.c,$(DAEMON_SRC)))
	$(archive)
$(BUILD)/libagent.a: $(call obj,$(filter-out guest-agent/main.c,$(AGENT_SRC)))
	$(archive)

DAEMON_ARCHIVES := $(BUILD)/libdaemon.a $(BUILD)/libkvm.a $(BUILD)/libcommon.a
AGENT_ARCHIVES := $(BUILD)/libagent.a $(BUILD)/libcommon.a

define link
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(1) -o $@ $(filter %.o,$^) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(2)
endef

$(BUILD)/daemon/vmdefragd: $(call obj,daemon/main.c) $(DAEMON_ARCHIVES)
	$(call link,,$(DAEMON_LIBS))
# With the policy itself, for replay; of the libraries only what that needs.
$(BUILD)/daemon/vmdefragctl: $(call obj,$(CTL_SRC)) $(BUILD)/libdaemon.a \
		$(BUILD)/libkvm.a $(BUILD)/libcommon.a
	$(call link,,-ljansson -linih)
$(BUILD)/guest-agent/vmdefrag-agent: $(call obj,guest-agent/main.c) \
		$(AGENT_ARCHIVES)
	$(call link,$(AGENT_LDFLAGS),$(AGENT_LIBS))

# --- tests -----------------------------------------------------------------
# tests/unit/{common,kvm,daemon}: one program a file, with the daemon's parts;
# tests/unit/agent: with the agent's. A test includes the headers of its part.

UNIT_HOST := $(wildcard tests/unit/common/*.c tests/unit/kvm/*.c \
	tests/unit/daemon/*.c)
UNIT_AGENT := $(wildcard tests/unit/agent/*.c)
unit_bin = $(patsubst tests/%.c,$(BUILD)/tests/%,$(1))
UNIT_BIN := $(call unit_bin,$(UNIT_HOST) $(UNIT_AGENT))

# Some headers of the agent have namesakes in the daemon.
$(call obj,$(UNIT_AGENT)): CPPFLAGS := -Iguest-agent \
	$(filter-out -Idaemon -Ikvm,$(CPPFLAGS))

$(call unit_bin,$(UNIT_HOST)): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o \
		$(DAEMON_ARCHIVES)
	$(call link,,-lcmocka $(DAEMON_LIBS))
$(call unit_bin,$(UNIT_AGENT)): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o \
		$(AGENT_ARCHIVES)
	$(call link,,-lcmocka $(AGENT_LIBS))

# Each fuzz target is also a plain program that reads its corpus. Those named
# agent_* get the agent's parts.
FUZZ_AGENT_SRC := $(wildcard tests/fuzz/agent_*.c)
$(call obj,$(FUZZ_AGENT_SRC)): CPPFLAGS += -Iguest-agent
FUZZ_AGENT_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,\
	$(FUZZ_AGENT_SRC))
$(FUZZ_AGENT_BIN): $(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o \
		$(BUILD)/obj/tests/fuzz/corpus_main.o $(AGENT_ARCHIVES)
	$(call link,,$(AGENT_LIBS))
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ_SRC))
$(FUZZ_BIN): $(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o \
		$(BUILD)/obj/tests/fuzz/corpus_main.o $(DAEMON_ARCHIVES)
	$(call link,,$(DAEMON_LIBS))

PROBE_BIN := $(patsubst tests/probe/%.c,$(BUILD)/tests/probe/%,\
	$(wildcard tests/probe/*.c))
$(PROBE_BIN): $(BUILD)/tests/probe/%: tests/probe/%.c \
		$(wildcard tests/probe/*.h)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE $(CFLAGS) $(if $(SAN),,-static) -o $@ $<

# Ours without the daemon around it, for tests and benchmarks.
TOOL_BIN := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,\
	$(wildcard tests/tools/*.c))
$(TOOL_BIN): $(BUILD)/tests/tools/%: $(BUILD)/obj/tests/tools/%.o \
		$(BUILD)/libkvm.a $(BUILD)/libcommon.a
	$(call link,,-ljansson -lnuma)

# What runs inside guests: static, one file each.
LAB_BIN := $(patsubst tests/lab/guest/%.c,$(BUILD)/lab/%,\
	$(wildcard tests/lab/guest/*.c))
$(LAB_BIN): $(BUILD)/lab/%: tests/lab/guest/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -Wall -Wextra -static -o $@ $<

# --- installation ----------------------------------------------------------
# make install DESTDIR=…: both sides; install-host and install-guest: one.
# Configuration that is there is left alone.

PREFIX ?= /usr
SBINDIR := $(DESTDIR)$(PREFIX)/sbin
BINDIR := $(DESTDIR)$(PREFIX)/bin
LIBDIR := $(DESTDIR)$(PREFIX)/lib
MANDIR := $(DESTDIR)$(PREFIX)/share/man
ETCDIR := $(DESTDIR)/etc/vmdefrag
COMPLETIONS := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
put = install -D -m $(1) $(2) $(3)

install-host: $(BUILD)/daemon/vmdefragd $(BUILD)/daemon/vmdefragctl
	$(Q)$(call put,755,$(BUILD)/daemon/vmdefragd,$(SBINDIR)/vmdefragd)
	$(Q)$(call put,755,$(BUILD)/daemon/vmdefragctl,$(BINDIR)/vmdefragctl)
	$(Q)for u in vmdefragd.service vmdefragd.socket; do \
		$(call put,644,systemd/$$u,$(LIBDIR)/systemd/system/$$u); done
	$(Q)$(call put,644,systemd/vmdefrag.sysusers,$(LIBDIR)/sysusers.d/vmdefrag.conf)
	$(Q)$(call put,644,systemd/vmdefrag.tmpfiles,$(LIBDIR)/tmpfiles.d/vmdefrag.conf)
	$(Q)$(call put,644,systemd/90-vmdefrag.preset,$(LIBDIR)/systemd/system-preset/90-vmdefrag.preset)
	$(Q)$(call put,644,systemd/vmdefragctl.bash-completion,$(COMPLETIONS)/vmdefragctl)
	$(Q)install -d -m 755 $(ETCDIR)/vmdefragd.conf.d
	$(Q)[ -e $(ETCDIR)/vmdefragd.conf ] || \
		$(call put,640,systemd/vmdefragd.conf,$(ETCDIR)/vmdefragd.conf)
	$(Q)for m in vmdefragd.8 vmdefragctl.1 vmdefragd.conf.5; do \
		$(call put,644,man/$$m,$(MANDIR)/man$${m##*.}/$$m); done

install-guest: $(BUILD)/guest-agent/vmdefrag-agent
	$(Q)$(call put,755,$(BUILD)/guest-agent/vmdefrag-agent,$(SBINDIR)/vmdefrag-agent)
	$(Q)$(call put,644,systemd/vmdefrag-agent.service,$(LIBDIR)/systemd/system/vmdefrag-agent.service)
	$(Q)$(call put,644,systemd/70-vmdefrag-agent.rules,$(LIBDIR)/udev/rules.d/70-vmdefrag-agent.rules)
	$(Q)[ -e $(ETCDIR)/agent.conf ] || \
		$(call put,644,systemd/agent.conf,$(ETCDIR)/agent.conf)
	$(Q)for m in vmdefrag-agent.8 vmdefrag-agent.conf.5; do \
		$(call put,644,man/$$m,$(MANDIR)/man$${m##*.}/$$m); done

install: install-host install-guest

test-programs: $(PROGRAMS) $(UNIT_BIN) $(FUZZ_BIN) $(FUZZ_AGENT_BIN) $(PROBE_BIN) $(TOOL_BIN) $(LAB_BIN)

deps:
	$(Q)tests/deps

JOBS ?= $(shell nproc)
# Packages first, then everything in parallel, then the tests one by one.
define prepared
	$(Q)tests/deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) test-programs
endef

check:
	$(prepared)
	$(Q)tests/run check
check-unit:
	$(prepared)
	$(Q)BUILD=$(BUILD) tests/run unit
# Real KVM and several nodes in an emulated host; its root is made once.
NESTED_DEPS := debootstrap e2fsprogs
check-nested:
	$(Q)tests/deps $(NESTED_DEPS)
	$(prepared)
	$(Q)tests/lab/nested fetch
	$(Q)tests/run nested
check-full:
	$(Q)tests/deps $(NESTED_DEPS)
	$(prepared)
	$(Q)tests/lab/nested fetch
	$(Q)tests/run full
demo:
	$(Q)tests/deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) $(PROGRAMS) $(LAB_BIN)
	$(Q)tests/lab/demo
bench-%:
	$(prepared)
	$(Q)tests/bench/$*
soak:
	$(prepared)
	$(Q)tests/run soak

# --- static checks -----------------------------------------------------------

HEADERS := $(wildcard include/*.h daemon/*.h kvm/*.h guest-agent/*.h)
check-headers:
	$(Q)for h in $(HEADERS); do \
		$(CC) $(CPPFLAGS) -Iguest-agent -std=gnu11 -Wall -Wextra \
			-Werror -fsyntax-only -x c $$h || exit 1; \
	done
check-layers:
	$(Q)tests/check-layers
FORMATTED := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
# Releases of clang-format differ in taste: ours is Debian 12's (14).
format-check:
	$(Q)clang-format --dry-run -Werror $(FORMATTED)
format:
	$(Q)clang-format -i $(FORMATTED)
tidy:
	$(Q)tests/deps clang-tidy cppcheck
	$(Q)clang-tidy --quiet $(filter-out tests/%,$(filter %.c,$(FORMATTED))) \
		-- $(CPPFLAGS) -Iguest-agent -std=gnu11
	$(Q)cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr \
		--enable=warning,portability -Iinclude $(FORMATTED)

# Coverage-guided, FUZZ_SECONDS each, finds added to the corpus.
FUZZ_SECONDS ?= 60
fuzz:
	$(Q)tests/deps clang libclang-rt-14-dev
	$(Q)tests/fuzz/run $(FUZZ_SECONDS)

clean:
	rm -rf build build-san

help:
	@sed -n 's/^# \{0,1\}//;2,10p' Makefile
	@echo
	@echo 'check-unit check-full check-nested soak fuzz bench-steer'
	@echo 'check-headers check-layers format-check tidy deps clean'

.PHONY: all test-programs deps check check-unit check-full demo soak \
	check-nested check-headers check-layers format-check format tidy fuzz \
	clean help

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
