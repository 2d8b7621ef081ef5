/* Schemas and names of a client through the builder of constraints: the first bytes choose family, start and choice, the rest is the tools' JSON. What comes out is JSON. */
#include "parse/constrain.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const kp_str controls[] = { KP_S_INIT("<tool_call>"), KP_S_INIT("[ARGS]") };
	static const kp_id ids[] = { 7, 9 };
	struct kp_err err;
	if (n < 4) {
		return 0;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(8 << 20);
	struct kp_jv tools, again;
	struct kp_tool_offer offer;
	struct kp_constraint c;
	const struct kp_grammar *reads;
	kp_str text = kp_str_n((const char *)data + 4, n - 4);
	if (kp_jv_parse(text, a, &tools, &err) || kp_tool_offer_create(a, &tools, &offer, &err)) {
		return 0;
	}
	const struct kp_chat chat = { .tool_choice = (enum kp_tool_choice)(data[2] % 5),
		.one_call = data[2] & 8 };
	const struct kp_output_format format = { .kind = (enum kp_constraint_kind)(data[3] % 7),
		.param = "f",
		.schema = tools,
		.text = text };
	const struct kp_constrain_opts o = {
		.tools = data[0] < kp_n_grammars ? &kp_grammars[data[0]] : NULL,
		.thinking = &kp_thinkings[data[1] % kp_n_thinkings],
		.start = (enum kp_parse_start)(data[1] / 64 % 3),
		.controls = controls,
		.control_ids = ids,
		.n_controls = data[3] & 128 ? 2 : 0,
		.offer = &offer,
		.chat = &chat,
		.format = &format
	};
	if (kp_constrain(&o, a, &c, &reads, &err) == 0 && c.kind == KP_CONSTRAINT_TAG &&
		c.text.p != text.p && kp_jv_parse(c.text, a, &again, &err)) {
		abort();
	}
	return 0;
}
