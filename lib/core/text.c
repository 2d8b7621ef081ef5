/* DESIGN: one byte buffer and one run array; a run is extended while its origin stays the same. */
#include "core/text.h"

void kp_text_builder_init(struct kp_text_builder *b, size_t max_bytes)
{
	*b = (struct kp_text_builder){ 0 };
	kp_buf_init(&b->bytes, KP_MIN(max_bytes, (size_t)UINT32_MAX));
}

void kp_text_builder_fini(struct kp_text_builder *b)
{
	kp_buf_fini(&b->bytes);
	kp_free(&b->runs);
	b->n = b->cap = 0;
}

void kp_text_builder_add(struct kp_text_builder *b, kp_str s, enum kp_origin origin)
{
	if (s.n == 0) {
		return;
	}
	kp_buf_add(&b->bytes, s);
	if (b->bytes.failed) {
		return;
	}
	uint32_t end = (uint32_t)b->bytes.n;
	if (b->n && b->runs[b->n - 1].origin == origin) {
		b->runs[b->n - 1].end = end;
		return;
	}
	if (b->n == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 16;
		struct kp_run *runs = kp_try_realloc(b->runs, cap * sizeof(*runs));
		if (!runs) {
			b->bytes.failed = true;
			return;
		}
		b->runs = runs;
		b->cap = cap;
	}
	b->runs[b->n++] = (struct kp_run){ .end = end, .origin = origin };
}

int kp_text_builder_finish(
	struct kp_text_builder *b, struct kp_arena *a, struct kp_text *ret, struct kp_err *err)
{
	kp_str s;
	if (kp_buf_finish(&b->bytes, "prompt text", err) ||
		kp_arena_dup(a, kp_buf_str(&b->bytes), &s, err)) {
		return -1;
	}
	struct kp_run *runs = kp_arena_alloc(a, b->n * sizeof(*runs));
	if (!runs) {
		return kp_arena_full(err, "text runs");
	}
	if (b->n) {
		memcpy(runs, b->runs, b->n * sizeof(*runs));
	}
	*ret = (struct kp_text){ .s = s, .runs = runs, .n_runs = b->n };
	return 0;
}
