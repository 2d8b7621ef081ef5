/* DESIGN: Hugging Face tokenizer.json to a tokenizer (its reference is the tokenizers library 0.23.3, tokenizers/src). The vocabulary and the
   merges, 11 MB of a 12 MB file, are read straight from the text; the small parts are kept raw on the way and understood
   afterwards (load_hf_parts.c). Whatever would change ids and is not known here is refused with its name. */
#include "token/load_hf.h"
#include "base/mem.h"

enum { PARTS_MAX = 96 << 20 };

static int read_vocab(struct kp_hf *h, struct kp_json *j, struct kp_err *err)
{
	kp_str text;
	int r;
	if (kp_json_object(j, err)) {
		return -1;
	}
	while ((r = kp_json_member(j, &text, err)) > 0) {
		int64_t id;
		if (kp_json_i64(j, 0, KP_BPE_NO_ID - 1, &id, err) ||
			kp_build_token(&h->b, (kp_id)id, text, err)) {
			return -1;
		}
		h->n_vocab++;
	}
	return r ? -1 : kp_build_index(&h->b, err);
}

/* "left right" or ["left", "right"]. */
static int read_merge(struct kp_hf *h, struct kp_json *j, struct kp_err *err)
{
	kp_str left, right, none;
	if (kp_json_peek(j) == KP_JSON_ARRAY) {
		bool pair = kp_json_array(j, err) == 0 && kp_json_element(j, err) == 1 &&
			    kp_json_string(j, &left, err) == 0 && kp_json_element(j, err) == 1 &&
			    kp_json_string(j, &right, err) == 0 && kp_json_element(j, err) == 0;
		if (!pair) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load merge `%zu`: not two strings", h->b.merges.n);
		}
		return kp_build_merge(&h->b, left, right, err);
	}
	if (kp_json_string(j, &left, err)) {
		return -1;
	}
	ptrdiff_t cut = kp_str_find_char(left, ' ');
	none = cut < 0 ? KP_STR_NULL : kp_str_skip(left, (size_t)cut + 1);
	if (cut < 0 || kp_str_find_char(none, ' ') >= 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load merge %zu `%" KP_FMT "`: not two tokens", h->b.merges.n,
			KP_ARG(kp_str_sub(left, 0, 80)));
	}
	return kp_build_merge(&h->b, kp_str_sub(left, 0, (size_t)cut), none, err);
}

static int read_merges(struct kp_hf *h, struct kp_json *j, struct kp_err *err)
{
	int r;
	if (kp_json_array(j, err)) {
		return -1;
	}
	while ((r = kp_json_element(j, err)) > 0) {
		if (read_merge(h, j, err)) {
			return -1;
		}
	}
	return r;
}

/* Reads the value now, or keeps it where it is when the vocabulary has not come yet. */
static int model_member(
	struct kp_hf *h, struct kp_json *j, kp_str key, kp_str *merges, struct kp_err *err)
{
	if (kp_str_eq(key, KP_S("vocab"))) {
		if (h->has_vocab) {
			return kp_json_fail(j, err, "given twice");
		}
		h->has_vocab = true;
		return read_vocab(h, j, err);
	}
	if (kp_str_eq(key, KP_S("merges"))) {
		if (h->has_vocab) {
			return read_merges(h, j, err);
		}
		return kp_json_skip(j, merges, err);
	}
	return kp_hf_model_option(h, j, key, err);
}

static int read_model(struct kp_hf *h, struct kp_json *j, struct kp_err *err)
{
	kp_str key, merges = KP_STR_NULL;
	int r;
	if (kp_json_object(j, err)) {
		return -1;
	}
	while ((r = kp_json_member(j, &key, err)) > 0) {
		if (model_member(h, j, key, &merges, err)) {
			return -1;
		}
	}
	if (r) {
		return -1;
	}
	if (!h->has_vocab) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load tokenizer.json: `model.vocab` is missing");
	}
	if (merges.p) {
		struct kp_json m;
		kp_json_init(&m, merges, h->parts);
		return read_merges(h, &m, err);
	}
	return 0;
}

static int read_top(struct kp_hf *h, kp_str text, struct kp_err *err)
{
	struct kp_json j;
	kp_str key;
	int r;
	const struct {
		const char *key;
		kp_str *raw;
	} raws[] = { { "added_tokens", &h->added }, { "normalizer", &h->normalizer },
		{ "pre_tokenizer", &h->pre_tokenizer }, { "post_processor", &h->post_processor },
		{ "decoder", &h->decoder }, { "truncation", &h->truncation },
		{ "padding", &h->padding }, { "version", &h->version } };
	kp_json_init(&j, text, h->parts);
	if (kp_json_object(&j, err)) {
		return -1;
	}
	while ((r = kp_json_member(&j, &key, err)) > 0) {
		size_t i = 0;
		while (i < KP_LEN(raws) && !kp_str_eq(key, kp_str_c(raws[i].key))) {
			i++;
		}
		if (i < KP_LEN(raws)) {
			r = kp_json_skip(&j, raws[i].raw, err);
		} else if (kp_str_eq(key, KP_S("model"))) {
			r = read_model(h, &j, err);
		} else {
			r = kp_err_set(err, KP_UNIMPLEMENTED,
				"load tokenizer.json: unknown key `%" KP_FMT "`",
				KP_ARG(kp_str_sub(key, 0, 80)));
		}
		if (r) {
			return -1;
		}
	}
	if (r || kp_json_end(&j, err)) {
		return -1;
	}
	return h->has_vocab ? 0
			    : kp_err_set(err, KP_INVALID_ARGUMENT,
				      "load tokenizer.json: `model` is missing");
}

int kp_load_hf(const struct kp_hf_files *files, struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_hf h = { .n_vocab = 0 };
	int r = -1;
	if (kp_build_init(&h.b, err) == 0) {
		h.b.keep_last = h.b.drop_gaps = true;
		h.parts = kp_arena_create(PARTS_MAX);
		r = read_top(&h, files->tokenizer, err) || kp_hf_parts(&h, err) ||
				    kp_hf_config(&h, files, err) || kp_build_finish(&h.b, ret, err)
			    ? -1
			    : 0;
	}
	kp_arena_destroy(h.parts);
	kp_build_fini(&h.b);
	return r;
}

int kp_tokenizer_from_hf(
	kp_str tokenizer_json, kp_str config_json, struct kp_tokenizer **ret, struct kp_err *err)
{
	return kp_load_hf(
		&(struct kp_hf_files){ .tokenizer = tokenizer_json, .config = config_json }, ret,
		err);
}
