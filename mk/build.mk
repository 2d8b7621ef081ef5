# Programs and libraries. lib/<m>/*.c -> build/<V>/lib/<m>.a; <program>/**/*.c -> build/<V>/bin/<program>.
Q := $(if $(VERBOSE),,@)
say = $(if $(VERBOSE),,@printf '  %-5s %s\n' $(1) $(2))

$(STAMP): FORCE
	@mkdir -p $(@D); printf '%s\n' '$(FLAGS_NOW)' | cmp -s - $@ || printf '%s\n' '$(FLAGS_NOW)' > $@
FORCE:
.PHONY: FORCE

# --- the version: the file VERSION and the commit (of git, or put into mk/commit by git archive) ------------------------
# The commit is only in release builds: in the others each commit would link every test anew.
ifeq ($(V),release)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null || sed -n 's/^\([0-9a-f]\{40\}\)$$/\1/p' mk/commit)
COMMIT  := $(COMMIT)$(shell git diff --quiet HEAD 2>/dev/null; [ $$? -ne 1 ] || echo -changed)
endif
VERSION := $(file < VERSION) $(or $(COMMIT),unknown)
$(B)/gen/base/version_gen.h: FORCE
	@mkdir -p $(@D); new=$@.$$$$; printf '#define KP_VERSION "%s"\n#define KP_COMMIT "%s"\n' $(VERSION) > $$new; \
		cmp -s $$new $@ && rm $$new || mv $$new $@
$(B)/obj/lib/base/version.o: $(B)/gen/base/version_gen.h

# --- generated protocol code -------------------------------------------------------------------------------------
PROTOS   := $(shell find proto -name '*.proto' 2>/dev/null | LC_ALL=C sort)
PB_C     := $(PROTOS:proto/%.proto=$(B)/gen/%.pb-c.c)
PB_H     := $(PROTOS:proto/%.proto=$(B)/gen/%.pb-c.h)
PB_O     := $(PB_C:%.c=%.o)
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: proto/%.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(B)/gen && protoc-c --proto_path=proto --c_out=$(B)/gen $<
$(B)/gen/%.pb-c.o: $(B)/gen/%.pb-c.c | $(PB_H)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(filter-out -Wcast-qual -Wswitch-enum,$(CFLAGS_ALL)) -MMD -MP -c -o $@ $<

# --- files that programs carry: NAME becomes an array of bytes, to be included -------------------------------------------
EMBEDDED := $(shell find operator \( -name '*.css' -o -name '*.js' -o -name '*.svg' \) 2>/dev/null | LC_ALL=C sort)
EMBED_H  := $(EMBEDDED:%=$(B)/gen/%.h)
$(EMBED_H): $(B)/gen/%.h: %
	$(call say,EMBED,$<)
	$(Q)mkdir -p $(@D) && od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' > $@

# --- objects -------------------------------------------------------------------------------------------------------
$(B)/obj/%.o: %.c $(STAMP) | $(PB_H) $(EMBED_H)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# --- libraries -----------------------------------------------------------------------------------------------------
define module_rules
SRC_$(1) := $$(shell find lib/$(1) -name '*.c' 2>/dev/null | LC_ALL=C sort)
OBJ_$(1) := $$(SRC_$(1):%.c=$(B)/obj/%.o)
$(B)/lib/$(1).a: $$(OBJ_$(1)) $(if $(filter wire,$(1)),$(PB_O))
	$$(call say,AR,$$@)
	$$(Q)mkdir -p $$(@D) && rm -f $$@ && $(AR) rcsD $$@ $$(filter %.o,$$^)
endef
$(foreach m,$(MODULES),$(eval $(call module_rules,$(m))))

# libs_of(module): archives of the module and of what it depends on, in link order; pkgs likewise.
libs_of  = $(foreach m,$(filter $(MODULES),$(1)) $(DEPS_$(1)),$(B)/lib/$(m).a)
pkgs_of  = $(sort $(PKGS_$(1)) $(foreach m,$(DEPS_$(1)),$(PKGS_$(m))))
ldlibs_of = $(if $(call pkgs_of,$(1)),$(shell pkg-config --libs $(call pkgs_of,$(1)) 2>/dev/null)) \
	$(LIBS_$(1)) $(foreach m,$(DEPS_$(1)),$(LIBS_$(m)))

# --- programs ------------------------------------------------------------------------------------------------------
SRC_sidecar := $(shell find sidecar -name '*.c' 2>/dev/null | LC_ALL=C sort)
OBJ_sidecar := $(SRC_sidecar:%.c=$(B)/obj/%.o)
# Everything of the gateway but main.c, so that tests can link it.
$(B)/lib/sidecar.a: $(filter-out $(B)/obj/sidecar/main.o,$(OBJ_sidecar))
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && $(AR) rcsD $@ $^
$(B)/bin/kelpie-sidecar: $(B)/obj/sidecar/main.o $(B)/lib/sidecar.a $(call libs_of,sidecar)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,sidecar)

SRC_operator := $(shell find operator -name '*.c' 2>/dev/null | LC_ALL=C sort)
OBJ_operator := $(SRC_operator:%.c=$(B)/obj/%.o)
$(B)/lib/operator.a: $(filter-out $(B)/obj/operator/main.o,$(OBJ_operator))
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && $(AR) rcsD $@ $^
$(B)/bin/kelpie-operator: $(B)/obj/operator/main.o $(B)/lib/operator.a $(call libs_of,operator)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,operator)

SRC_cli := $(shell find cli -name '*.c' 2>/dev/null | LC_ALL=C sort)
$(B)/lib/cli.a: $(filter-out $(B)/obj/cli/main.o,$(SRC_cli:%.c=$(B)/obj/%.o))
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && $(AR) rcsD $@ $^
$(B)/bin/kubectl-kelpie: $(B)/obj/cli/main.o $(B)/lib/cli.a $(call libs_of,cli)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,cli)

# The simulated engine: gRPC core's server API, nothing of lib/net.
SRC_sim := $(shell find bench/sim-engine bench/common -name '*.c' 2>/dev/null | LC_ALL=C sort)
$(B)/bin/sim-engine: $(SRC_sim:%.c=$(B)/obj/%.o) $(PB_O) $(B)/lib/obs.a $(B)/lib/base.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ \
		$(shell pkg-config --libs grpc_unsecure gpr libprotobuf-c libcrypto zlib 2>/dev/null) -lpthread

# The load generator of `make bench`.
SRC_load := $(shell find bench/load bench/common -name '*.c' 2>/dev/null | LC_ALL=C sort)
$(B)/bin/kelpie-load: $(SRC_load:%.c=$(B)/obj/%.o) $(call libs_of,json)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,json)

PROGRAMS := $(if $(filter operator/main.c,$(SRC_operator)),kelpie-operator) $(if $(SRC_sidecar),kelpie-sidecar) $(if $(SRC_cli),kubectl-kelpie) $(if $(SRC_sim),sim-engine) \
	$(if $(SRC_load),kelpie-load)

all: $(PROGRAMS:%=$(B)/bin/%) ## build the programs into build/bin (release flags)
	$(if $(filter release,$(V)),@mkdir -p build/bin && for p in $(PROGRAMS); do ln -f $(B)/bin/$$p build/bin/$$p; done)

# Pieces for hack/lint and hack/test.
protos: $(PB_H)
libs: $(foreach m,$(MODULES),$(B)/lib/$(m).a) $(if $(SRC_sidecar),$(B)/lib/sidecar.a) $(if $(SRC_operator),$(B)/lib/operator.a) $(if $(SRC_cli),$(B)/lib/cli.a)
print-flags:
	@echo $(CC) $(CPPFLAGS_ALL) $(WARN)
.PHONY: all protos libs print-flags

-include $(shell find $(B) -name '*.d' 2>/dev/null)
