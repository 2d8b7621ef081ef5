# Kelpie. `make help` lists the targets. Everything is built under build/<variant>/.
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all
include mk/modules.mk
include mk/flags.mk
include mk/build.mk
include mk/test.mk
include mk/oracle.mk
include mk/gen.mk
include mk/bench.mk
include mk/vllm.mk
include mk/kube.mk

# Everything of a variant: programs, tests, fuzz targets, the tests' own programs.
everything: all $(UNIT_BIN) $(FUZZ_BIN) $(TOOL_BIN) $(ORACLE_SRC:%.c=$(B)/%)

help: ## this list
	@awk -F':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile mk/*.mk
	@echo "  variables: V=release|debug|asan|fuzz  CC=gcc|clang  M=<module>  VERBOSE=1  WERROR=1"

demo: ## run the main job with a real model (README)
	./hack/demo

deps: ## install the Debian packages the build and the tests need
	./hack/deps

format: ## clang-format over all C sources
	@git ls-files '*.c' '*.h' | grep -v '_gen\.[ch]$$' | xargs -r clang-format -i

clean: ## remove build/ except the Python environments
	rm -rf build/bin build/release build/debug build/asan build/tsan build/clang build/fuzz build/test

.PHONY: everything help demo deps format clean
