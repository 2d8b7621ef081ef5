/* Fuzz target: a request to Anthropic's Messages API. Reading succeeds or fails with a place; what it makes is what OpenAI's reader takes, unchanged. */
#include "prompt/anthropic.h"
#include "tests/fuzz/prompt/as_chat.h"

static int read_request(kp_str in, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_anthropic a = { .system = { .type = KP_JSON_NONE } };
	struct kp_json j;
	kp_str name;
	int more;
	kp_json_init(&j, in, turn->arena);
	if (kp_json_object(&j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&j, &name, err)) > 0) {
		int r = kp_json_try_null(&j, err);
		r = r ? r : kp_anthropic_member(&j, name, &a, turn, err);
		if (r < 0 || (r == 1 && kp_json_peek(&j) != KP_JSON_NULL &&
				     kp_json_skip(&j, NULL, err))) {
			return -1;
		}
	}
	return more < 0 || kp_json_end(&j, err) ? -1 : kp_anthropic_settle(&a, turn, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MEMORY);
	struct kp_turn turn = { .arena = a };
	struct kp_err err = KP_ERR_INIT;
	if (read_request(kp_str_n(data, size), &turn, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT && err.code != KP_RESOURCE_EXHAUSTED);
		return 0;
	}
	must_read_the_same(&turn.chat.messages, false, a);
	if (turn.chat.tools.type) {
		must_read_the_same(&turn.chat.tools, true, a);
	}
	return 0;
}
