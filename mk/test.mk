# Tests. tests/{unit,prop}/<module>/x_test.c is one cmocka binary linked with <module> and what it depends on;
# tests/fuzz/<module>/x.c one libFuzzer target (V=fuzz), or a replay program in every other variant.
UNIT_SRC := $(shell find tests/unit tests/prop -name '*_test.c' 2>/dev/null | LC_ALL=C sort)
FUZZ_SRC := $(shell find tests/fuzz -mindepth 2 -name '*.c' 2>/dev/null | LC_ALL=C sort)
module_of = $(word 3,$(subst /, ,$(1)))
extra_of  = $(if $(filter sidecar operator cli,$(1)),$(B)/lib/$(1).a)
# What only a module's tests link: net's HTTP framing has http-parser as oracle.
ORACLE_LIBS_net := -lhttp_parser

define unit_rules
$(B)/$(basename $(1)): $(B)/obj/$(1:.c=.o) $$(call extra_of,$(call module_of,$(1))) $$(call libs_of,$(call module_of,$(1)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ $$(call ldlibs_of,$(call module_of,$(1))) \
		$$(ORACLE_LIBS_$(call module_of,$(1))) -lcmocka -lm
endef
$(foreach t,$(UNIT_SRC),$(eval $(call unit_rules,$(t))))

FUZZ_MAIN := $(if $(filter fuzz,$(V)),,$(B)/obj/tests/fuzz/replay.o)
define fuzz_rules
$(B)/$(basename $(1)): $(B)/obj/$(1:.c=.o) $(FUZZ_MAIN) $$(call extra_of,$(call module_of,$(1))) $$(call libs_of,$(call module_of,$(1)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) $(if $(filter fuzz,$(V)),-fsanitize=fuzzer) -o $$@ $$^ \
		$$(call ldlibs_of,$(call module_of,$(1))) -lm
endef
$(foreach t,$(FUZZ_SRC),$(eval $(call fuzz_rules,$(t))))

# Programs that integration tests drive: tests/tools/x.c, linked with lib/net (engine_*, rpc_*, control_*, kube_*, mcp_*: with that module; status_*: with the operator); grpc_server_*
# and grpc_core_* are gRPC core's and know only lib/base.
TOOL_SRC := $(shell find tests/tools -name '*.c' 2>/dev/null | LC_ALL=C sort)
TOOL_BIN := $(TOOL_SRC:%.c=$(B)/%)
GRPC_LIBS = $(shell pkg-config --libs grpc_unsecure gpr 2>/dev/null) -lpthread
$(B)/tests/tools/%: $(B)/obj/tests/tools/%.o $(call libs_of,net)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,net)
define tool_rules
$(B)/tests/tools/$(1)_%: $(B)/obj/tests/tools/$(1)_%.o $$(call libs_of,$(1))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ $$(call ldlibs_of,$(1)) -lm
endef
$(foreach m,engine rpc control kube mcp parse,$(eval $(call tool_rules,$(m))))
$(B)/tests/tools/status_%: $(B)/obj/tests/tools/status_%.o $(B)/lib/operator.a $(call libs_of,operator)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,operator)
$(B)/tests/tools/grpc_server_%: $(B)/obj/tests/tools/grpc_server_%.o $(B)/lib/base.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(GRPC_LIBS)

$(B)/tests/tools/grpc_core_%: $(B)/obj/tests/tools/grpc_core_%.o $(B)/lib/base.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(GRPC_LIBS)

pick = $(if $(M),$(foreach t,$(1),$(if $(filter $(M),$(call module_of,$(t))),$(t))),$(1))
UNIT_BIN := $(patsubst %.c,$(B)/%,$(filter-out $(LEAVE_OUT),$(call pick,$(UNIT_SRC))) $(ALSO))
FUZZ_BIN := $(patsubst %.c,$(B)/%,$(call pick,$(FUZZ_SRC)))

check-unit: $(UNIT_BIN) $(if $(filter fuzz,$(V)),,$(FUZZ_BIN)) ## unit and property tests, fuzz regressions (M=module for one)
	@hack/run-unit $(UNIT_BIN) -- $(if $(filter fuzz,$(V)),,$(FUZZ_BIN))

check-asan: ## the whole suite under AddressSanitizer and UndefinedBehaviorSanitizer
	./hack/test --asan

# gRPC core is not instrumented: what it does inside looks like races.
check-tsan: ## the tests of lib/base, lib/rpc and lib/prompt, and one of lib/template (M=module for another) under ThreadSanitizer
	TSAN_OPTIONS="$${TSAN_OPTIONS:-ignore_noninstrumented_modules=1}" $(MAKE) V=tsan M="$(or $(M),base rpc prompt)" ALSO="$(if $(M),,tests/unit/template/replay_test.c)" check-unit

check-valgrind: ## unit tests under valgrind, by hand: slow (M=module for one)
	KP_TEST_LIMIT=900 KP_WRAP="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite" \
		$(MAKE) V=debug check-unit

# effort_test holds computing to the processor's time, which an emulator does not keep.
check-arm64-token: ## lib/token's unit and property tests compiled for arm64 and run by QEMU, by hand (hack/deps hand; minutes)
	hack/arm64-root >/dev/null
	KP_TEST_LIMIT=900 KP_WRAP="qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$(ARM64_ROOT)/usr/lib/aarch64-linux-gnu:$(ARM64_ROOT)/lib/aarch64-linux-gnu" \
		$(MAKE) V=arm64 M=token LEAVE_OUT=tests/unit/token/effort_test.c check-unit

fuzz-build: ## build the fuzz targets with libFuzzer
	$(MAKE) V=fuzz fuzz-bins
fuzz-bins: $(FUZZ_BIN)
fuzz-smoke: ## 15 s of fuzzing per target (SECONDS_EACH=n for more, M=module)
	$(MAKE) V=fuzz fuzz-bins && hack/run-fuzz $(or $(SECONDS_EACH),15) $(patsubst %.c,build/fuzz/%,$(call pick,$(FUZZ_SRC)))

fuzz-long: ## 10 minutes of fuzzing per target, written down in tests/fuzz/ledger.tsv (hours; M=module)
	KP_FUZZ_LEDGER=tests/fuzz/ledger.tsv $(MAKE) fuzz-smoke SECONDS_EACH=600

test: ## everything that needs no GPU and is not marked slow (./hack/test)
	./hack/test

check-prompt-long: ## ten million steps of the prompt cache's property test, a million loops with a switch, rounds of loops replayed (minutes; STEPS=n)
	$(MAKE) V=release build/release/tests/prop/prompt/cache_test build/release/tests/prop/template/latch_test build/release/tests/prop/template/replay_test
	KP_STEPS=$(or $(STEPS),10000000) build/release/tests/prop/prompt/cache_test
	KP_STEPS=$(or $(STEPS),1000000) build/release/tests/prop/template/latch_test
	KP_STEPS=$(or $(STEPS),4000000) build/release/tests/prop/template/replay_test

check-parse-long: ## every case of every family of parsers in 1.8 million cuts (a minute)
	$(MAKE) V=release build/release/tests/prop/parse/family_test
	KP_LONG=1 build/release/tests/prop/parse/family_test

test-long: ## the tests that hack/test leaves out: a million template programs, 2,000 trained tokenizers, ... (an hour; K=word for some, JOBS=n; goes on where it stopped)
	mkdir -p build/long
	"$$(hack/venv)/bin/pytest" -m slow $(if $(K),-k "$(K)") -n $(or $(JOBS),0) --done build/long/$(or $(DONE),$(shell git rev-parse --short HEAD)).done tests

check-reproducible: ## the last commit, built twice in different folders, gives the same programs
	hack/check-reproducible

lint: ## layers, headers that compile alone, symbol names, banned calls, shellcheck, formatting
	hack/lint
.PHONY: check-unit check-asan check-tsan check-valgrind check-arm64-token fuzz-build fuzz-bins fuzz-smoke fuzz-long test check-prompt-long check-parse-long test-long check-reproducible lint
