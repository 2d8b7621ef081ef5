/* Fuzz target: whatever an engine may send, through every decoder of every protocol. The first byte
 * says which message of which protocol the rest is. */
#include "engine/cold.h"
#include "engine/protocol.h"
#include "wire/check.h"
#include "vllm/vllm_engine.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct kp_protocol *const protocols[] = { &kp_vllm_protocol, &kp_sglang_protocol };

static void generate(const struct kp_protocol *p, kp_str bytes)
{
	static struct kp_response_decoder d;
	struct kp_response r;
	struct kp_err err = KP_ERR_INIT;
	if (!d.ids.max) {
		kp_response_decoder_init(&d);
	}
	if (kp_response_decode(&d, &p->response, bytes, &r, &err) < 0) {
		KP_BUG_ON(err.code != KP_INTERNAL && err.code != KP_RESOURCE_EXHAUSTED);
		return;
	}
	/* Read all that it points at. */
	volatile uint64_t sum = 0;
	for (size_t i = 0; i < r.n_ids; i++) {
		sum += r.ids[i];
	}
	const struct kp_token_logprob *lists[] = { r.logprobs, r.prompt_logprobs };
	const size_t n[] = { r.n_logprobs, r.n_prompt_logprobs };
	for (size_t l = 0; l < 2; l++) {
		for (size_t i = 0; i < n[l]; i++) {
			sum += lists[l][i].id;
			for (size_t k = 0; k < lists[l][i].n_top; k++) {
				sum += lists[l][i].top[k].id;
			}
		}
	}
	sum += (uint64_t)p->finish(&r);
	(void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) {
		return 0;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(8 << 20);
	const struct kp_protocol *p = protocols[data[0] / 7 % KP_LEN(protocols)];
	kp_str bytes = kp_str_n(data + 1, size - 1), one, two;
	struct kp_err err = KP_ERR_INIT;
	struct kp_engine_info info = { 0 };
	struct kp_engine_loads loads = { 0 };
	int rc = 0;
	switch (data[0] % 7) {
	case 0:
		generate(p, bytes);
		break;
	case 1:
		rc = kp_cold_tokenizer(bytes, &one, &two, &err);
		break;
	case 2:
		rc = p->read_health(bytes, &err);
		break;
	case 3:
		rc = p->read_model_info(bytes, a, &info, &err);
		break;
	case 4:
		rc = p->read_server_info(bytes, a, &info, &err);
		break;
	case 5:
		rc = p->read_loads(bytes, a, &loads, &info, &err);
		break;
	default: { /* the pre-scan alone, on a message with more levels */
		struct kp_wire_limits limits = KP_WIRE_LIMITS;
		rc = kp_wire_check(
			&vllm__grpc__engine__generate_response__descriptor, bytes, &limits, &err);
		break;
	}
	}
	KP_BUG_ON((rc != 0) != (err.code != KP_OK));
	return 0;
}
