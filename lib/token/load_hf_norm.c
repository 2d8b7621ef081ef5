/* DESIGN: `normalizer` of a tokenizer.json to the steps of norm.h. */
#include "token/load_hf.h"

#include <string.h>

static int add(struct kp_hf *h, struct kp_norm_step step, struct kp_err *err)
{
	struct kp_norm *n = &h->b.t->norm;
	if (n->n == KP_NORM_MAX) {
		kp_pattern_fini(&step.pattern);
		return kp_err_set(
			err, KP_TOO_LARGE, "load normalizer: more than `%d` steps", KP_NORM_MAX);
	}
	n->step[n->n++] = step;
	return 0;
}

static int bert(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	bool clean, chinese, lower, accents;
	if (kp_hf_bool(v, "clean_text", &clean, err) ||
		kp_hf_bool(v, "handle_chinese_chars", &chinese, err) ||
		kp_hf_bool(v, "lowercase", &lower, err)) {
		return -1;
	}
	accents = kp_hf_flag(v, KP_S("strip_accents"), lower);
	const struct {
		bool on;
		enum kp_norm_kind kind;
	} steps[] = { { clean, KP_NORM_CLEAN }, { chinese, KP_NORM_CHINESE },
		{ accents, KP_NORM_NFD }, { accents, KP_NORM_NONSPACING },
		{ lower, KP_NORM_LOWER } };
	for (size_t i = 0; i < KP_LEN(steps); i++) {
		if (steps[i].on && add(h, (struct kp_norm_step){ .kind = steps[i].kind }, err)) {
			return -1;
		}
	}
	return 0;
}

static int precompiled(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_norm_step step = { .kind = KP_NORM_CHARSMAP };
	kp_str text = kp_jv_str(v, KP_S("precompiled_charsmap")), blob;
	if (!text.p) {
		return kp_hf_refuse(err, "normalizer", KP_S("Precompiled without its map"));
	}
	KP_AUTO(buf) struct kp_buf bytes;
	kp_buf_init(&bytes, KP_TOKEN_MAX_INPUT);
	return kp_token_base64(text, &bytes, err) ||
			       kp_arena_dup(h->b.t->arena, kp_buf_str(&bytes), &blob, err) ||
			       kp_charsmap_init(&step.map, blob, err) || add(h, step, err)
		       ? -1
		       : 0;
}

static int replace(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	if (h->version_1 && !kp_jv_str(kp_jv_get(v, KP_S("pattern")), KP_S("String")).p) {
		return kp_hf_refuse(
			err, "as tokenizers 1.0: normalizer", KP_S("Replace with a regex"));
	}
	struct kp_norm_step step = { .kind = KP_NORM_REPLACE };
	return kp_hf_text(h, v, "content", &step.text, err) ||
			       kp_hf_pattern(h, v, &step.pattern, err) || add(h, step, err)
		       ? -1
		       : 0;
}

static int component(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	static const struct {
		kp_str type;
		enum kp_norm_kind kind;
	} plain[] = {
		{ KP_S_INIT("NFC"), KP_NORM_NFC },
		{ KP_S_INIT("NFD"), KP_NORM_NFD },
		{ KP_S_INIT("NFKC"), KP_NORM_NFKC },
		{ KP_S_INIT("NFKD"), KP_NORM_NFKD },
		{ KP_S_INIT("Lowercase"), KP_NORM_LOWER },
		{ KP_S_INIT("StripAccents"), KP_NORM_ACCENTS },
		{ KP_S_INIT("Nmt"), KP_NORM_NMT },
		{ KP_S_INIT("ByteLevel"), KP_NORM_BYTES },
	};
	struct kp_norm_step step = { .kind = KP_NORM_STRIP, .young = h->version_1 };
	if (kp_hf_same(h, v, "normalizer", "NFC NFD NFKC NFKD Prepend Replace", err)) {
		return -1;
	}
	for (size_t i = 0; i < KP_LEN(plain); i++) {
		if (kp_hf_is(v, plain[i].type)) {
			step.kind = plain[i].kind;
			return add(h, step, err);
		}
	}
	if (kp_hf_is(v, KP_S("Strip"))) {
		return kp_hf_bool(v, "strip_left", &step.left, err) ||
				       kp_hf_bool(v, "strip_right", &step.right, err) ||
				       add(h, step, err)
			       ? -1
			       : 0;
	}
	if (kp_hf_is(v, KP_S("Prepend"))) {
		step.kind = KP_NORM_PREPEND;
		return kp_hf_text(h, v, "prepend", &step.text, err) || add(h, step, err) ? -1 : 0;
	}
	if (kp_hf_is(v, KP_S("Replace"))) {
		return replace(h, v, err);
	}
	if (kp_hf_is(v, KP_S("BertNormalizer"))) {
		return bert(h, v, err);
	}
	if (kp_hf_is(v, KP_S("Precompiled"))) {
		return precompiled(h, v, err);
	}
	return kp_hf_refuse(err, "normalizer", kp_hf_type(v));
}

int kp_hf_normalizer(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_tokenizer *t = h->b.t;
	if (kp_hf_parse(h, h->normalizer, &v, err) ||
		kp_hf_each(h, &v, KP_S("normalizers"), component, err)) {
		return -1;
	}
	for (size_t i = 0; i < t->norm.n; i++) {
		h->b.text = h->b.text || t->norm.step[i].kind == KP_NORM_BYTES;
	}
	if (t->norm.n == 1 && t->norm.step[0].kind == KP_NORM_NFC && !h->version_1) {
		t->nfc = true;
		t->norm.n = 0;
	}
	return 0;
}
