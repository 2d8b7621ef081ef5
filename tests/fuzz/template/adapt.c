/* Fuzz target: three bytes that say what a template wants, then messages or tools as JSON. Rewriting succeeds or fails with a place; what
   was rewritten is not rewritten again; and the final message's text, marked, is found and cut where it ends. */
#include "template/adapt.h"
#include "template/prefill.h"

enum { MEMORY = 64 << 20 };

static struct kp_template_shape shape_of(const uint8_t *b)
{
	return (struct kp_template_shape){ .content = { b[0] & 3, b[0] >> 2 & 3, b[0] >> 4 & 3,
						   b[0] >> 6 & 3 },
		.args = (enum kp_shape_args)(b[1] % 3),
		.tools = (enum kp_shape_tools)(b[1] / 3 % 3),
		.beside_calls = (enum kp_shape_beside)(b[2] % 3),
		.developer_role = b[2] & 128 };
}

static void check_prefill(const struct kp_jv *messages, struct kp_arena *a)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv marked;
	if (kp_template_prefill_mark(messages, a, &marked, &err)) {
		KP_BUG_ON(err.code == KP_OK);
		return;
	}
	const struct kp_jv *before = kp_jv_get(&messages->items[messages->n - 1], KP_S("content"));
	const struct kp_jv *after = kp_jv_get(&marked.items[marked.n - 1], KP_S("content"));
	if (before->type != KP_JSON_STRING) {
		return;
	}
	struct kp_run run = { .end = (uint32_t)after->s.n, .origin = KP_ORIGIN_ASSISTANT };
	struct kp_text text = { .s = after->s, .runs = &run, .n_runs = 1 };
	KP_BUG_ON(kp_template_prefill_cut(messages, &text, a, &err) != 0);
	KP_BUG_ON(!kp_str_eq(text.s, before->s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3) {
		return 0;
	}
	struct kp_template_shape shape = shape_of(data);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MEMORY);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv in, once, twice;
	if (kp_jv_parse(kp_str_n(data + 3, size - 3), a, &in, &err) || in.type != KP_JSON_ARRAY) {
		return 0;
	}
	if (!kp_template_adapt_tools(&shape, &in, a, &once, &err)) {
		KP_BUG_ON(once.n != in.n);
	}
	if (kp_template_adapt_messages(&shape, &in, a, &once, &err)) {
		KP_BUG_ON(err.code != KP_RESOURCE_EXHAUSTED &&
			  (err.code != KP_INVALID_ARGUMENT || !err.param[0]));
		return 0;
	}
	KP_BUG_ON(once.n != in.n);
	KP_BUG_ON(kp_template_adapt_messages(&shape, &once, a, &twice, &err) != 0);
	bool wraps_added = shape.beside_calls == KP_BESIDE_EMPTY &&
			   shape.content[KP_SHAPE_ASSISTANT] == KP_CONTENT_PARTS;
	KP_BUG_ON(!wraps_added && !kp_jv_eq(&once, &twice));
	check_prefill(&once, a);
	return 0;
}
