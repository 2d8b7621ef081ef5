# Benchmarks: what is linked, and the scripts that put other people's programs beside it.
$(B)/bin/tokenizer-bench: $(B)/obj/bench/tokenizer/bench.o $(B)/lib/parse.a $(call libs_of,token)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,token)

$(B)/bin/tokenizer-load: $(B)/obj/bench/tokenizer/load.o $(call libs_of,token)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,token)

bench-tokenizer: $(B)/bin/tokenizer-bench ## lib/token beside eight other tokenizers (a quarter of an hour; BENCH_ARGS=--quick: two minutes)
	bench/tokenizer/run $< $(BENCH_ARGS)
.PHONY: bench-tokenizer

bench-tokenizer-load: $(B)/bin/tokenizer-load ## loading four tokenizers from their files and from images: time, memory
	bench/tokenizer/load $<
.PHONY: bench-tokenizer-load

bench-gateway: all ## kelpie-sidecar beside smg: CPU per request and token, time to first token, memory (minutes)
	bench/gateway/run --bin $(abspath $(B)/bin) $(BENCH_ARGS)
bench: bench-tokenizer bench-gateway ## all benchmarks
.PHONY: bench bench-gateway

$(B)/bin/json-bench: $(B)/obj/bench/json/json.o $(call libs_of,json)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,json) -lm

bench-json: $(B)/bin/json-bench ## lib/json's reader beside jansson
	$<
.PHONY: bench-json

# Our gRPC client and gRPC core's under the same load; our server and grpc-go's.
$(B)/bin/grpc-ours: $(B)/obj/bench/grpc/ours.o $(call libs_of,net)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,net)
$(B)/bin/grpc-serve: $(B)/obj/bench/grpc/serve.o $(call libs_of,net)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,net)
$(B)/bin/grpc-core: $(B)/obj/bench/grpc/core.o $(B)/lib/base.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(GRPC_LIBS)

bench-grpc: $(B)/bin/grpc-ours $(B)/bin/grpc-core $(B)/bin/grpc-serve ## lib/net's gRPC client beside gRPC core's, its server beside grpc-go's
	$(shell hack/venv)/bin/python bench/grpc/run $^
.PHONY: bench-grpc

$(B)/bin/template-bench: $(B)/obj/bench/template/bench.o $(call libs_of,template)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,template)

bench-template: $(B)/bin/template-bench ## lib/template beside jinja2 and minijinja
	bench/template/run $<
bench: bench-template
.PHONY: bench-template

bench-http: $(B)/tests/tools/echo_server ## the HTTP server beside nginx; the cost of an event
	bench/http/run $<
bench: bench-http
.PHONY: bench-http

bench-peer: all ## an engine reached through the gateway that owns it: CPU of both per request and token, time to first token (minutes)
	bench/peer/run --bin $(abspath $(B)/bin) $(BENCH_ARGS)
bench: bench-peer
.PHONY: bench-peer

$(B)/bin/control-gateways: $(B)/obj/bench/control/gateways.o $(call libs_of,control)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,control) -lm

bench-control: all $(B)/bin/control-gateways ## one operator with 1,000 gateways: time, CPU, memory and bytes, beside Python's gRPC (minutes)
	$(shell hack/venv)/bin/python bench/control/run --bin $(abspath $(B)/bin) $(BENCH_ARGS)
bench: bench-control
.PHONY: bench-control

$(B)/bin/prompt-bench: $(B)/obj/bench/prompt/bench.o $(call libs_of,prompt)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,prompt)

bench-prompt: $(B)/bin/prompt-bench all ## a prompt's next turn, with the cache and without, beside jinja2 and fastokens; the gateway turn by turn (a minute)
	bench/prompt/run --bin $(abspath $(B)/bin) $(BENCH_ARGS)
bench: bench-prompt
.PHONY: bench-prompt

$(B)/bin/parse-bench: $(B)/obj/bench/parse/bench.o $(call libs_of,parse)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,parse)

bench-parse: $(B)/bin/parse-bench ## the parsers of tool calls, a token at a time, beside vLLM's (VLLM=1: 6 GB, minutes)
	bench/parse/run $< $(if $(VLLM),--vllm "$$(hack/venv vllm)") $(BENCH_ARGS)
bench: bench-parse
.PHONY: bench-parse

bench-operator: all $(B)/bin/control-gateways ## one operator on a real API server with 200 nodes, 1,000 pods and gateways, 20 pools: latency, CPU, memory, requests, bytes (minutes)
	$(shell hack/venv)/bin/python bench/operator/run --bin $(abspath $(B)/bin) $(BENCH_ARGS)
.PHONY: bench-operator

$(B)/bin/image-bench: $(B)/obj/bench/image/bench.o $(call libs_of,image)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(call ldlibs_of,image)

bench-image: $(B)/bin/image-bench ## lib/image beside transformers' PIL backend: JPEG to tensors, one thread
	$(shell hack/venv)/bin/python bench/image/run $< $(BENCH_ARGS)
bench: bench-image
.PHONY: bench-image
