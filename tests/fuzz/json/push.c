/* The push reader on any bytes: whole, byte by byte and in pieces it tells the same, and it takes what the pull reader takes. */
#include "json/push.h"
#include "json/value.h"

struct told { /* what was told, as text: runs of TEXT joined */
	struct kp_buf text;
};

static int tell(void *ctx, const struct kp_json_push_event *ev, struct kp_err *err)
{
	struct told *t = ctx;
	(void)err;
	if (ev->kind == KP_JSON_EV_TEXT) {
		KP_BUG_ON(ev->text.n == 0);
		kp_buf_add(&t->text, ev->text);
		return 0;
	}
	kp_buf_printf(&t->text, "<%d %d %llu>", ev->kind, ev->type, (unsigned long long)ev->at);
	kp_buf_add(&t->text, ev->text);
	return 0;
}

static int ask(kp_str s, size_t step, struct told *t, uint64_t *ret_at, struct kp_err *err)
{
	struct kp_json_push p;
	int r = 0;
	kp_buf_init(&t->text, 16 << 20);
	kp_json_push_init(&p, tell, t);
	while (s.n && r == 0) {
		r = kp_json_push_feed(&p, kp_str_sub(s, 0, step), err);
		s = kp_str_skip(s, step);
	}
	r = r ? r : kp_json_push_finish(&p, err);
	*ret_at = p.at;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	kp_str s = kp_str_n(data, n);
	struct kp_err err = KP_ERR_INIT, other = KP_ERR_INIT, pull = KP_ERR_INIT;
	struct told whole, pieces;
	struct kp_jv v;
	uint64_t at, other_at;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(64 << 20);
	int r = ask(s, n + 1, &whole, &at, &err);
	for (size_t step = 1; step <= 3; step++) {
		KP_BUG_ON(ask(s, step, &pieces, &other_at, &other) != r || other_at != at);
		KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole.text), kp_buf_str(&pieces.text)));
		KP_BUG_ON(r && strcmp(err.msg, other.msg) != 0);
		kp_buf_fini(&pieces.text);
	}
	if (r == 0 || err.code != KP_RESOURCE_EXHAUSTED) {
		KP_BUG_ON(kp_jv_parse(s, a, &v, &pull) != r);
	}
	kp_buf_fini(&whole.text);
	return 0;
}
