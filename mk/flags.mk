# Compiler flags per variant (V): release (default), debug, asan, tsan, clang, fuzz; arm64 is for make check-arm64-token alone. CC=clang works with every variant.
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
V       ?= release
B       := build/$(V)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wformat=2 -Wvla -Wundef -Wpointer-arith -Wcast-qual -Wwrite-strings -Wimplicit-fallthrough -Wconversion \
	-Wno-sign-conversion -Wnull-dereference -Wdouble-promotion -Wswitch-enum
# Errors in hack/test and CI (WERROR=1); a user's compiler may know warnings that ours does not.
ifeq ($(WERROR),1)
WARN += -Werror
endif

CSTD    := -std=gnu17 -D_GNU_SOURCE
HARDEN  := -fstack-protector-strong -fstack-clash-protection -fPIE
# The build id is part of the name of an image of a tokenizer (lib/token/images.h).
LDHARD  := -pie -Wl,-z,relro,-z,now -Wl,--as-needed -Wl,--build-id=sha1
ifeq ($(shell uname -m)$(filter arm64,$(V)),x86_64)
HARDEN  += -fcf-protection
endif
# Reproducible: no path of the build machine in any object, no time stamp, fixed archive order.
REPRO   := -ffile-prefix-map=$(CURDIR)=. -fmacro-prefix-map=$(CURDIR)=.

OPT_release := -O2 -g -D_FORTIFY_SOURCE=2
OPT_debug   := -O0 -g3
OPT_asan    := -O1 -g3 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DKP_ASAN=1
OPT_fuzz    := -O1 -g3 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all \
	-DKP_ASAN=1 -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION=1
OPT_tsan    := -O1 -g3 -fno-omit-frame-pointer -fsanitize=thread
LD_asan     := -fsanitize=address,undefined
LD_fuzz     := -fsanitize=address,undefined
LD_tsan     := -fsanitize=thread
OPT_clang   := -O1 -g
OPT_arm64   := -O2 -g -D_FORTIFY_SOURCE=2
ifneq ($(filter fuzz clang,$(V)),)
CC      := clang
endif
ifeq ($(OPT_$(V)),)
$(error unknown variant V=$(V): release, debug, asan, tsan, clang, fuzz or arm64)
endif

ALLPKGS := $(sort $(foreach m,$(MODULES) sidecar cli,$(PKGS_$(m))))
ifeq ($(filter help clean format deps,$(MAKECMDGOALS)),)
PKGMISS := $(shell for p in $(ALLPKGS); do pkg-config --exists $$p 2>/dev/null || printf '%s ' $$p; done)
ifneq ($(strip $(PKGMISS)),)
$(error missing libraries (pkg-config): $(PKGMISS)— run ./hack/deps)
endif
endif
PKG_CFLAGS := $(shell pkg-config --cflags $(ALLPKGS) 2>/dev/null)
# hack/arm64-root has made it.
ARM64_ROOT := $(CURDIR)/build/arm64-root
ifeq ($(V),arm64)
CC         := aarch64-linux-gnu-gcc
PKG_CFLAGS := -isystem $(ARM64_ROOT)/usr/include -isystem $(ARM64_ROOT)/usr/include/aarch64-linux-gnu
LD_arm64   := $(patsubst %,-L$(ARM64_ROOT)/%/aarch64-linux-gnu,usr/lib lib)
endif

CPPFLAGS_ALL := $(CSTD) -Ilib -I$(B)/gen -I. $(PKG_CFLAGS) $(CPPFLAGS)
CFLAGS_ALL   := $(OPT_$(V)) $(WARN) $(HARDEN) $(REPRO) $(CFLAGS)
LDFLAGS_ALL  := $(LDHARD) $(LD_$(V)) $(LDFLAGS)

# A change of compiler or flags rebuilds everything of that variant.
STAMP := $(B)/flags.stamp
FLAGS_NOW := $(CC) $(CPPFLAGS_ALL) $(filter-out -Werror,$(CFLAGS_ALL)) $(LDFLAGS_ALL)
