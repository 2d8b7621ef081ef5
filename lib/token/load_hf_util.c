/* DESIGN: what the readers of tokenizer.json share: JSON values in the load's arena, members read with the strictness of the reference. */
#include "token/load_hf.h"

#include <string.h>

enum { DEPTH_MAX = 16 };

int kp_token_base64(kp_str text, struct kp_buf *out, struct kp_err *err)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	while (text.n && text.p[text.n - 1] == '=') {
		text.n--;
	}
	for (size_t i = 0; i < text.n; i++) {
		const char *p = text.p[i] ? strchr(digits, text.p[i]) : NULL;
		if (!p) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "read base64: byte `%zu`", i);
		}
		bits = bits << 6 | (uint32_t)(p - digits);
		if (i % 4) {
			kp_buf_addc(out, (char)(bits >> (6 - 2 * (i % 4))));
		}
	}
	return kp_buf_finish(out, "decoded base64", err);
}

int kp_hf_refuse(struct kp_err *err, const char *what, kp_str name)
{
	return kp_err_set(err, KP_UNIMPLEMENTED, "load tokenizer.json: %s `%" KP_FMT "`", what,
		KP_ARG(kp_str_sub(name, 0, 120)));
}

bool kp_hf_null(const struct kp_jv *v)
{
	return !v || v->type == KP_JSON_NULL;
}

bool kp_hf_flag(const struct kp_jv *v, kp_str key, bool missing)
{
	const struct kp_jv *m = kp_jv_get(v, key);
	return kp_hf_null(m) ? missing : m->type == KP_JSON_TRUE;
}

bool kp_hf_is(const struct kp_jv *v, kp_str type)
{
	return kp_str_eq(kp_jv_str(v, KP_S("type")), type);
}

kp_str kp_hf_type(const struct kp_jv *v)
{
	kp_str t = kp_jv_str(v, KP_S("type"));
	return t.p ? t : kp_hf_null(v) ? KP_S("null") : KP_S("(no type)");
}

int kp_hf_parse(struct kp_hf *h, kp_str raw, struct kp_jv *ret, struct kp_err *err)
{
	if (!raw.p) {
		*ret = (struct kp_jv){ .type = KP_JSON_NULL };
		return 0;
	}
	return kp_jv_parse(raw, h->parts, ret, err);
}

static int missing(const struct kp_jv *v, const char *key, struct kp_err *err)
{
	kp_str type = kp_hf_type(v);
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"load tokenizer.json: `%" KP_FMT ".%s` is missing or of another type",
		KP_ARG(kp_str_sub(type, 0, 80)), key);
}

int kp_hf_text(
	struct kp_hf *h, const struct kp_jv *v, const char *key, kp_str *ret, struct kp_err *err)
{
	kp_str s = kp_jv_str(v, kp_str_c(key));
	return s.p ? kp_arena_dup(h->b.t->arena, s, ret, err) : missing(v, key, err);
}

int kp_hf_bool(const struct kp_jv *v, const char *key, bool *ret, struct kp_err *err)
{
	const struct kp_jv *m = kp_jv_get(v, kp_str_c(key));
	if (!kp_jv_is(m, KP_JSON_TRUE) && !kp_jv_is(m, KP_JSON_FALSE)) {
		return missing(v, key, err);
	}
	*ret = m->type == KP_JSON_TRUE;
	return 0;
}

int kp_hf_size(const struct kp_jv *v, const char *key, size_t *ret, struct kp_err *err)
{
	const struct kp_jv *m = kp_jv_get(v, kp_str_c(key));
	uint64_t n;
	if (!kp_jv_is(m, KP_JSON_NUMBER) || !kp_str_u64(m->s, UINT64_MAX, &n)) {
		return missing(v, key, err);
	}
	*ret = (size_t)n;
	return 0;
}

int kp_hf_same(const struct kp_hf *h, const struct kp_jv *v, const char *what, const char *types,
	struct kp_err *err)
{
	kp_str type = kp_hf_type(v), rest = kp_str_c(types), known;
	bool found = !h->version_1;
	while (!found && kp_str_split(&rest, ' ', &known)) {
		found = kp_str_eq(type, known);
	}
	return found ? 0
		     : kp_err_set(err, KP_UNIMPLEMENTED,
			       "load tokenizer.json as tokenizers 1.0: %s `%" KP_FMT "`", what,
			       KP_ARG(kp_str_sub(type, 0, 80)));
}

int kp_hf_pattern(
	struct kp_hf *h, const struct kp_jv *v, struct kp_pattern *ret, struct kp_err *err)
{
	const struct kp_jv *p = kp_jv_get(v, KP_S("pattern"));
	kp_str text = kp_jv_str(p, KP_S("String")), regex = kp_jv_str(p, KP_S("Regex"));
	if (regex.p) {
		return kp_pattern_regex(
			       regex, h->version_1 ? KP_CLASSES_HF_1 : KP_CLASSES_HF, ret, err)
			       ? kp_err_wrap(err, "load tokenizer.json")
			       : 0;
	}
	if (!text.p || kp_arena_dup(h->b.t->arena, text, &text, err)) {
		return missing(v, "pattern", err);
	}
	*ret = kp_pattern_literal(text);
	return 0;
}

static int each_at(struct kp_hf *h, const struct kp_jv *v, kp_str member, kp_hf_component *each,
	unsigned depth, struct kp_err *err)
{
	if (!kp_hf_is(v, KP_S("Sequence"))) {
		return each(h, v, err);
	}
	const struct kp_jv *list = kp_jv_get(v, member);
	if (!kp_jv_is(list, KP_JSON_ARRAY) || depth == DEPTH_MAX) {
		return kp_hf_refuse(err, "Sequence without", member);
	}
	for (uint32_t i = 0; i < list->n; i++) {
		if (each_at(h, &list->items[i], member, each, depth + 1, err)) {
			return -1;
		}
	}
	return 0;
}

int kp_hf_each(struct kp_hf *h, const struct kp_jv *v, kp_str member, kp_hf_component *each,
	struct kp_err *err)
{
	return kp_hf_null(v) ? 0 : each_at(h, v, member, each, 0, err);
}
