/* A schema and a text on any bytes, apart by a zero byte: no crash, and the same answer whole and in pieces. A third part behind another zero byte, if there is one, says where to cut. */
#include "base/mem.h"
#include "jsonschema/jsonschema.h"

struct answer {
	int result;
	enum kp_jsonschema_verdict verdict;
	size_t n;
	struct kp_jsonschema_error first;
};

static void ask(const struct kp_jsonschema *s, kp_str text, kp_str cuts, struct answer *a)
{
	const struct kp_jsonschema_limits l = {
		.max_steps = 50000, .max_errors = 3, .max_bytes = 1 << 20
	};
	struct kp_jsonschema_run *r = kp_jsonschema_run_create(s, &l);
	struct kp_err err = KP_ERR_INIT;
	size_t k = 0;
	a->result = 0;
	a->verdict = KP_JSONSCHEMA_OPEN;
	while (text.n && a->result == 0) {
		size_t n = cuts.n ? 1 + (size_t)((uint8_t)cuts.p[k++ % cuts.n] % 16) : text.n;
		a->result = kp_jsonschema_run_feed(r, kp_str_sub(text, 0, n), &a->verdict, &err);
		text = kp_str_skip(text, n);
	}
	if (a->result == 0) {
		a->result = kp_jsonschema_run_finish(r, &a->verdict, &err);
		KP_BUG_ON(a->result == 0 && a->verdict == KP_JSONSCHEMA_OPEN);
	}
	KP_BUG_ON(a->result != 0 && err.code != KP_RESOURCE_EXHAUSTED);
	a->first = (struct kp_jsonschema_error){ .at = 0 };
	const struct kp_jsonschema_error *errors = kp_jsonschema_run_errors(r, &a->n);
	if (a->n) {
		a->first = errors[0];
	}
	KP_BUG_ON(a->result == 0 && (a->n != 0) != (a->verdict == KP_JSONSCHEMA_INVALID));
	kp_jsonschema_run_destroy(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	kp_str rest = kp_str_n(data, size), schema, text = KP_S(""), cuts = KP_S("\1");
	struct kp_jv v;
	struct kp_jsonschema *s = NULL;
	struct kp_err err = KP_ERR_INIT;
	if (size == 0 || !kp_str_split(&rest, '\0', &schema)) {
		return 0;
	}
	if (kp_str_split(&rest, '\0', &text) && rest.p) {
		cuts = rest.n ? rest : cuts;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(8 << 20);
	const struct kp_jsonschema_options o = {
		.assert_formats = size % 2, .default_draft7 = size % 3 == 0, .max_bytes = 1 << 20
	};
	if (kp_jv_parse(schema, a, &v, &err)) {
		return 0;
	}
	err = KP_ERR_INIT;
	(void)!kp_jsonschema_check_strict(&v, &err);
	if (kp_jsonschema_compile(&v, &o, &s, &err)) {
		KP_BUG_ON(err.code == KP_OK || err.msg[0] == '\0');
		return 0;
	}
	struct answer whole, pieces;
	ask(s, text, KP_STR_NULL, &whole);
	ask(s, text, cuts, &pieces);
	if (whole.result == 0 && pieces.result == 0) {
		KP_BUG_ON(whole.verdict != pieces.verdict || whole.n != pieces.n ||
			  whole.first.at != pieces.first.at);
		KP_BUG_ON(strcmp(whole.first.pointer, pieces.first.pointer) ||
			  strcmp(whole.first.message, pieces.first.message));
	}
	kp_jsonschema_destroy(s);
	return 0;
}
