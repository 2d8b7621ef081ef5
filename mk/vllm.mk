# Real engines, or what of them runs without a GPU; heavy, so by hand.
check-vllm: build/release/bin/kelpie-operator build/release/bin/kelpie-sidecar build/release/bin/sim-engine ## the gateway with vLLM 0.32 on the CPU (6 GB, minutes)
	hack/check-vllm
check-sglang: ## kp_engine with SGLang's own gRPC servicer (6 GB)
	hack/check-sglang
.PHONY: check-vllm check-sglang
