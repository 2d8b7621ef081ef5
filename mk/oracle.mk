# Helper programs of the oracle tests: tests/oracle/<module>/x.c is one program linked with <module> and what it depends on. The
# tests build what they need themselves (tests/oracle/golang.py, helper).
ORACLE_SRC := $(shell find tests/oracle -name '*.c' 2>/dev/null | LC_ALL=C sort)

define oracle_rules
$(B)/$(basename $(1)): $(B)/obj/$(1:.c=.o) $$(call libs_of,$(call module_of,$(1)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ $$(call ldlibs_of,$(call module_of,$(1))) -lm
endef
$(foreach t,$(ORACLE_SRC),$(eval $(call oracle_rules,$(t))))
