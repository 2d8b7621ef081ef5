# A real engine behind the gateway; heavy, so by hand.
check-vllm: build/release/bin/kelpie-sidecar build/release/bin/sim-engine ## the gateway with vLLM 0.32 on the CPU (6 GB, minutes)
	hack/check-vllm
.PHONY: check-vllm
