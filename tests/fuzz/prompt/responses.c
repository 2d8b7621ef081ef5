/* Fuzz target: a request to OpenAI's Responses API. Reading succeeds or fails with a place; what it makes is what the readers of chats take, unchanged. The first half
   of the items stands for what a gateway kept. */
#include "prompt/responses.h"
#include "tests/fuzz/prompt/as_chat.h"

static int read_request(kp_str in, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_json j;
	kp_str name;
	int more;
	kp_json_init(&j, in, turn->arena);
	if (kp_json_object(&j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&j, &name, err)) > 0) {
		int rc = kp_json_try_null(&j, err);
		rc = rc ? rc : kp_responses_member(&j, name, r, turn, err);
		if (rc < 0 || (rc == 1 && kp_json_peek(&j) != KP_JSON_NULL &&
				      kp_json_skip(&j, NULL, err))) {
			return -1;
		}
	}
	return more < 0 || kp_json_end(&j, err) ? -1 : 0;
}

static int make(const struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	size_t n = r->input.type == KP_JSON_ARRAY ? r->input.n : 0;
	struct kp_responses_entry *entries = kp_arena_calloc(turn->arena, n + 1, sizeof(*entries));
	struct kp_responses_tool own = {
		.label = KP_S("server"), .name = KP_S("tool"), .schema = { .type = KP_JSON_OBJECT }
	};
	if (!entries) {
		return kp_arena_full(err, "entries");
	}
	for (size_t i = 0; i < n; i++) {
		entries[i] = (struct kp_responses_entry){ .item = &r->input.items[i],
			.index = (uint32_t)i,
			.is_kept = i < n / 2,
			.begins = i % 3 == 0 };
	}
	return kp_responses_tool_name(turn->arena, own.label, own.name, &own.exposed, err) ||
			       kp_responses_messages(r, entries, n, turn, err) ||
			       kp_responses_tools(r, &own, 1, turn, err)
		       ? -1
		       : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MEMORY);
	struct kp_responses r = { .input = { .type = KP_JSON_NONE } };
	struct kp_turn turn = { .arena = a };
	struct kp_err err = KP_ERR_INIT;
	if (read_request(kp_str_n(data, size), &r, &turn, &err) || make(&r, &turn, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT && err.code != KP_RESOURCE_EXHAUSTED);
		return 0;
	}
	must_read_the_same(&turn.chat.messages, false, a);
	must_read_the_same(&turn.chat.tools, true, a);
	return 0;
}
