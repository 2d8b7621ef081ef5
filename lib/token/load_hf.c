/* DESIGN: Hugging Face tokenizer.json to a tokenizer (its reference is the tokenizers library 0.23.3, tokenizers/src). All members are kept
   raw at first; the model's options and the chains decide how the vocabulary is to be read: as bytes in GPT-2's alphabet (bpe.h) or as text (model.h).
   Vocabulary and merges, 11 MB of a 12 MB file, are then read straight from the text. Whatever would change ids and is not known here is refused with
   its name. */
#include "token/load_hf.h"
#include "base/mem.h"

#include <math.h>

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

/* [["text", score], ...] */
static int read_scored(struct kp_hf *h, struct kp_json *j, struct kp_err *err)
{
	KP_VEC(double)
	scores = { 0 };
	struct kp_model *m = &h->b.t->model;
	double least = HUGE_VAL;
	int r = kp_json_array(j, err);
	while (r == 0 && (r = kp_json_element(j, err)) > 0) {
		kp_str text;
		double score;
		bool pair = kp_json_array(j, err) == 0 && kp_json_element(j, err) == 1 &&
			    kp_json_string(j, &text, err) == 0 && kp_json_element(j, err) == 1 &&
			    kp_json_f64(j, -1e300, 1e300, &score, err) == 0 &&
			    kp_json_element(j, err) == 0;
		if (!pair) {
			r = kp_err_set(err, KP_INVALID_ARGUMENT,
				"load token `%zu`: not a text and its score", scores.n);
		} else {
			r = kp_build_token(&h->b, (kp_id)scores.n, text, err);
			kp_vec_push(&scores, score);
			least = KP_MIN(least, score);
		}
	}
	m->score = scores.p;
	m->n_scores = scores.n;
	m->unk_score = least - 10.0; /* the reference's penalty */
	h->n_vocab = scores.n;
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

/* The options first, since they say how to read the rest. */
static int read_model(struct kp_hf *h, struct kp_err *err)
{
	struct kp_json j;
	kp_str key;
	int r;
	kp_json_init(&j, h->model, h->parts);
	if (kp_json_object(&j, err)) {
		return -1;
	}
	while ((r = kp_json_member(&j, &key, err)) > 0) {
		bool vocab = kp_str_eq(key, KP_S("vocab"));
		if (vocab && h->vocab.p) {
			return kp_json_fail(&j, err, "given twice");
		}
		if (vocab || kp_str_eq(key, KP_S("merges"))) {
			r = kp_json_skip(&j, vocab ? &h->vocab : &h->merges, err);
		} else {
			r = kp_hf_model_option(h, &j, key, err);
		}
		if (r) {
			return -1;
		}
	}
	if (r) {
		return -1;
	}
	if (!h->has_type) {
		return kp_hf_refuse(err, "model", KP_S("(no type)"));
	}
	return h->vocab.p ? 0
			  : kp_err_set(err, KP_INVALID_ARGUMENT,
				    "load tokenizer.json: `model.vocab` is missing");
}

/* The unknown token once the vocabulary is there. */
static int set_unknown(struct kp_hf *h, struct kp_err *err)
{
	struct kp_model *m = &h->b.t->model;
	kp_id id = h->unk_token.p ? kp_build_find(&h->b, h->unk_token) : KP_NO_ID;
	m->unk = id == KP_NO_ID ? KP_BPE_NO_ID : id;
	m->unk_named = h->unk_token.p != NULL;
	if (m->kind == KP_MODEL_UNIGRAM && h->unk_id != KP_NO_ID) {
		if (h->unk_id >= h->n_vocab) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load tokenizer.json: `model.unk_id` is %u of %zu tokens",
				h->unk_id, h->n_vocab);
		}
		m->unk = h->unk_id;
	}
	return 0;
}

static int read_tables(struct kp_hf *h, struct kp_err *err)
{
	struct kp_json j;
	struct kp_model *m = &h->b.t->model;
	if (h->b.text && m->kind == KP_MODEL_BYTES) {
		m->kind = KP_MODEL_BPE;
		m->ignore_merges = h->b.t->ignore_merges;
		h->b.t->ignore_merges = false;
	}
	if (!h->b.text) { /* the decoder is ByteLevel, which such a vocabulary has inside */
		h->b.t->decoder.n = 0;
	}
	h->b.strip_prefix = m->kind == KP_MODEL_BPE ? m->prefix.n : 0;
	kp_json_init(&j, h->vocab, h->parts);
	if (m->kind == KP_MODEL_UNIGRAM ? read_scored(h, &j, err) : read_vocab(h, &j, err)) {
		return -1;
	}
	if (set_unknown(h, err)) {
		return -1;
	}
	if (m->kind > KP_MODEL_BPE) {
		return 0;
	}
	if (!h->merges.p) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load tokenizer.json: `model.merges` is missing");
	}
	kp_json_init(&j, h->merges, h->parts);
	return read_merges(h, &j, err);
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
		{ "padding", &h->padding }, { "version", &h->version }, { "model", &h->model } };
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
	return h->model.p ? 0
			  : kp_err_set(err, KP_INVALID_ARGUMENT,
				    "load tokenizer.json: `model` is missing");
}

/* Everything that changes ids and is in no table. */
static void note_parts(struct kp_hf *h)
{
	const kp_str raw[] = { h->normalizer, h->pre_tokenizer, h->decoder, h->unk_token,
		h->b.t->model.prefix, h->b.t->model.suffix };
	for (size_t i = 0; i < KP_LEN(raw); i++) {
		kp_buf_add(&h->b.parts, raw[i]);
		kp_buf_addc(&h->b.parts, 0);
	}
	kp_buf_printf(&h->b.parts, "%u %d %d %zu", h->unk_id, h->b.t->model.fuse_unk,
		h->b.t->model.byte_fallback, h->b.t->model.max_chars);
	if (h->b.t->model.score) {
		kp_buf_add(&h->b.parts, kp_str_n(h->b.t->model.score, h->n_vocab * sizeof(double)));
	}
}

/* A byte-level vocabulary without all bytes cannot be one: unknown characters go another way then. */
static bool lacks_bytes(struct kp_hf *h)
{
	for (unsigned c = 0; h->unk_token.p && !h->b.text && c < 256; c++) {
		char byte = (char)c;
		if (kp_vocab_find(&h->b.t->vocab, kp_str_n(&byte, 1)) == KP_BPE_NO_ID) {
			return true;
		}
	}
	return false;
}

static int load(struct kp_hf *h, const struct kp_hf_files *files, bool text, bool *ret_again,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	static const char *const kinds[] = { "hf:bpe", "hf:bpe", "hf:unigram", "hf:wordpiece",
		"hf:wordlevel" };
	if (kp_build_init(&h->b, err)) {
		return -1;
	}
	h->b.keep_last = h->b.drop_gaps = true;
	h->b.text = text;
	h->unk_id = KP_NO_ID;
	h->version_1 = files->version_1;
	if (h->version_1) {
		kp_buf_lit(&h->b.parts, "tokenizers 1.0");
	}
	h->parts = kp_arena_create(PARTS_MAX);
	if (read_top(h, files->tokenizer, err) || read_model(h, err) || kp_hf_normalizer(h, err) ||
		kp_hf_decoder(h, err) || kp_hf_pre_tokenizer(h, err) || read_tables(h, err)) {
		return -1;
	}
	*ret_again = lacks_bytes(h);
	if (*ret_again) {
		return 0;
	}
	if (h->version_1 && h->b.t->model.kind > KP_MODEL_BPE) {
		return kp_hf_refuse(
			err, "as tokenizers 1.0: model", kp_str_c(kinds[h->b.t->model.kind] + 3));
	}
	h->b.t->info.kind = kp_str_c(kinds[h->b.t->model.kind]);
	note_parts(h);
	return kp_hf_parts(h, err) || kp_hf_config(h, files, err) ||
			       kp_build_finish(&h->b, ret, err)
		       ? -1
		       : 0;
}

int kp_load_hf(const struct kp_hf_files *files, struct kp_tokenizer **ret, struct kp_err *err)
{
	int r = 0;
	bool again = true;
	for (int text = 0; r == 0 && again && text < 2; text++) {
		struct kp_hf h = { .n_vocab = 0 };
		again = false;
		r = load(&h, files, text, &again, ret, err);
		kp_arena_destroy(h.parts);
		kp_build_fini(&h.b);
	}
	return r;
}

/* One member of `model` other than vocab and merges. */
int kp_hf_model_option(struct kp_hf *h, struct kp_json *j, kp_str key, struct kp_err *err)
{
	static const kp_str kinds[] = { KP_S_INIT("BPE"), KP_S_INIT(""), KP_S_INIT("Unigram"),
		KP_S_INIT("WordPiece"), KP_S_INIT("WordLevel") };
	struct kp_model *m = &h->b.t->model;
	struct kp_jv v;
	if (kp_jv_read(j, 1024, &v, err)) {
		return -1;
	}
	kp_str text = v.type == KP_JSON_STRING ? v.s : KP_STR_NULL;
	if (kp_str_eq(key, KP_S("type"))) {
		for (size_t i = 0; text.n && i < KP_LEN(kinds); i++) {
			if (kp_str_eq(text, kinds[i])) {
				m->kind = (enum kp_model_kind)i;
				h->has_type = true;
				h->b.text = h->b.text || i;
				return 0;
			}
		}
		return kp_hf_refuse(err, "model", text.p ? text : KP_S("(no type)"));
	}
	if (kp_str_eq(key, KP_S("dropout"))) {
		return 0; /* of training; serving never drops merges */
	}
	const struct {
		const char *key;
		bool *flag;
		kp_str *text;
	} known[] = { { "ignore_merges", &h->b.t->ignore_merges, NULL },
		{ "fuse_unk", &m->fuse_unk, NULL }, { "byte_fallback", &m->byte_fallback, NULL },
		{ "unk_token", NULL, &h->unk_token },
		{ "continuing_subword_prefix", NULL, &m->prefix },
		{ "end_of_word_suffix", NULL, &m->suffix } };
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (!kp_str_eq(key, kp_str_c(known[i].key))) {
			continue;
		}
		if (known[i].flag) {
			*known[i].flag = v.type == KP_JSON_TRUE;
		} else if (text.p && kp_arena_dup(h->b.t->arena, text, known[i].text, err)) {
			return -1;
		}
		h->b.text = h->b.text || m->byte_fallback || m->prefix.n || m->suffix.n;
		return 0;
	}
	uint64_t n;
	bool number = v.type == KP_JSON_NUMBER && kp_str_u64(v.s, SIZE_MAX, &n);
	if (kp_str_eq(key, KP_S("max_input_chars_per_word")) && number) {
		m->max_chars = (size_t)n;
		return 0;
	}
	if (kp_str_eq(key, KP_S("unk_id")) && (number || v.type == KP_JSON_NULL)) {
		h->unk_id = number ? (kp_id)KP_MIN(n, (uint64_t)KP_NO_ID - 1) : KP_NO_ID;
		return 0;
	}
	return kp_hf_refuse(err, "model option", key);
}

int kp_tokenizer_from_hf(
	kp_str tokenizer_json, kp_str config_json, struct kp_tokenizer **ret, struct kp_err *err)
{
	return kp_load_hf(
		&(struct kp_hf_files){ .tokenizer = tokenizer_json, .config = config_json }, ret,
		err);
}
