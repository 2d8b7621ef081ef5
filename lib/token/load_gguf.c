/* DESIGN: GGUF metadata to a tokenizer, as llama.cpp reads it (its src/llama-vocab.cpp is the reference): models `gpt2` (byte-level BPE), `llama` (SentencePiece-like BPE), `bert`
   (WordPiece), `t5` (Unigram) and `gemma4`; the others it knows are refused by name. Two passes over the keys: collect, then build. A `tokenizer.ggml.` key that this
   code does not know is refused, since it may change ids. Where an id is missing, llama.cpp's default for the model counts.

   A byte that is no token separates its neighbours and gives no id. */
#include "token/gguf_load.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <float.h>
#include <string.h>

/* Keys that say nothing about ids, or that are checked elsewhere. */
static const char *const ignored[] = { "token_type_count", "cls_token_id", "add_sep_token",
	"suppress_tokens" };

static const struct {
	const char *model;
	enum kp_gguf_kind kind;
	kp_id bos, eos, unk, sep, pad; /* where no key says it */
} models[] = {
	{ "gpt2", KP_GGUF_BPE, 11, 11, KP_NO_ID, KP_NO_ID, KP_NO_ID },
	{ "llama", KP_GGUF_SPM, 1, 2, 0, KP_NO_ID, KP_NO_ID },
	{ "bert", KP_GGUF_WPM, 101, KP_NO_ID, 100, 102, 0 },
	{ "t5", KP_GGUF_UGM, KP_NO_ID, 1, 2, KP_NO_ID, 0 },
	{ "gemma4", KP_GGUF_GEMMA4, KP_NO_ID, KP_NO_ID, KP_NO_ID, KP_NO_ID, KP_NO_ID },
};

static int wrong_type(const struct kp_gguf_value *v, struct kp_err *err)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"read GGUF key `%" KP_FMT "`: unexpected type %u",
		KP_ARG(kp_str_sub(v->key, 0, 80)), (unsigned)v->type);
}

static bool is_one_of(kp_str s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(s, kp_str_c(list[i]))) {
			return true;
		}
	}
	return false;
}

static int read_id(const struct kp_gguf_value *v, kp_id *ret, struct kp_err *err)
{
	if (v->type != KP_GGUF_U32 && v->type != KP_GGUF_I32 && v->type != KP_GGUF_U64 &&
		v->type != KP_GGUF_I64) {
		return wrong_type(v, err);
	}
	if (v->type == KP_GGUF_I32 || v->type == KP_GGUF_I64 ? v->i < 0 : v->u == UINT32_MAX) {
		return 0; /* -1: none */
	}
	if (v->u >= KP_BPE_NO_ID) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read GGUF key `%" KP_FMT "`: no id",
			KP_ARG(v->key));
	}
	*ret = (kp_id)v->u;
	return 0;
}

static int read_bool(const struct kp_gguf_value *v, bool *ret, bool *ret_has, struct kp_err *err)
{
	if (v->type != KP_GGUF_BOOL) {
		return wrong_type(v, err);
	}
	*ret = v->u != 0;
	*ret_has = true;
	return 0;
}

/* also: another type that will do. */
static int read_array(const struct kp_gguf_value *v, uint32_t type, uint32_t also,
	struct kp_gguf_array *ret, bool *ret_has, struct kp_err *err)
{
	if (v->type != KP_GGUF_ARRAY || (v->a.type != type && v->a.type != also)) {
		return wrong_type(v, err);
	}
	*ret = v->a;
	*ret_has = true;
	return 0;
}

static int read_string(const struct kp_gguf_value *v, kp_str *ret, struct kp_err *err)
{
	if (v->type != KP_GGUF_STRING || !kp_utf8_ok(v->s)) {
		return wrong_type(v, err);
	}
	*ret = v->s;
	return 0;
}

static int read_array_key(
	const struct kp_gguf_value *v, kp_str key, struct kp_gguf_meta *m, struct kp_err *err)
{
	bool any;
	const struct {
		const char *key;
		uint32_t type, also;
		struct kp_gguf_array *a;
		bool *has;
	} arrays[] = {
		{ "tokens", KP_GGUF_STRING, KP_GGUF_STRING, &m->tokens, &any },
		{ "merges", KP_GGUF_STRING, KP_GGUF_STRING, &m->merges, &m->has_merges },
		{ "token_type", KP_GGUF_I32, KP_GGUF_U32, &m->types, &m->has_types },
		{ "scores", KP_GGUF_F32, KP_GGUF_F32, &m->scores, &m->has_scores },
		{ "precompiled_charsmap", KP_GGUF_U8, KP_GGUF_I8, &m->charsmap, &any },
	};
	for (size_t i = 0; i < KP_LEN(arrays); i++) {
		if (kp_str_eq(key, kp_str_c(arrays[i].key))) {
			return read_array(
				v, arrays[i].type, arrays[i].also, arrays[i].a, arrays[i].has, err);
		}
	}
	if (is_one_of(key, ignored, KP_LEN(ignored))) {
		return 0;
	}
	return kp_err_set(err, KP_UNIMPLEMENTED,
		"load GGUF: unknown key `tokenizer.ggml.%" KP_FMT "`",
		KP_ARG(kp_str_sub(key, 0, 80)));
}

static int read_key(
	const struct kp_gguf_value *v, kp_str key, struct kp_gguf_meta *m, struct kp_err *err)
{
	bool any;
	const struct {
		const char *key;
		kp_id *id;
	} ids[] = { { "bos_token_id", &m->bos }, { "eos_token_id", &m->eos },
		{ "eot_token_id", &m->eot }, { "eom_token_id", &m->eom },
		{ "padding_token_id", &m->pad }, { "unknown_token_id", &m->unk },
		{ "seperator_token_id", &m->sep }, { "separator_token_id", &m->sep },
		{ "mask_token_id", &m->mask }, { "fim_pre_token_id", &m->fim_pre },
		{ "fim_suf_token_id", &m->fim_suf }, { "fim_mid_token_id", &m->fim_mid },
		{ "fim_pad_token_id", &m->fim_pad }, { "fim_rep_token_id", &m->fim_rep },
		{ "fim_sep_token_id", &m->fim_sep }, { "prefix_token_id", &m->fim_pre },
		{ "suffix_token_id", &m->fim_suf }, { "middle_token_id", &m->fim_mid } };
	const struct {
		const char *key;
		bool *flag, *has;
	} flags[] = { { "add_bos_token", &m->add_bos, &m->has_add_bos },
		{ "add_eos_token", &m->add_eos, &m->has_add_eos },
		{ "add_space_prefix", &m->add_prefix, &m->has_prefix },
		{ "remove_extra_whitespaces", &m->merge_spaces, &any },
		{ "normalizer.lowercase", &m->lowercase, &any },
		{ "normalizer.strip_accents", &m->strip_accents, &m->has_accents } };
	for (size_t i = 0; i < KP_LEN(ids); i++) {
		if (kp_str_eq(key, kp_str_c(ids[i].key))) {
			return read_id(v, ids[i].id, err);
		}
	}
	for (size_t i = 0; i < KP_LEN(flags); i++) {
		if (kp_str_eq(key, kp_str_c(flags[i].key))) {
			return read_bool(v, flags[i].flag, flags[i].has, err);
		}
	}
	if (kp_str_eq(key, KP_S("model"))) {
		return read_string(v, &m->model, err);
	}
	if (kp_str_eq(key, KP_S("pre"))) {
		return read_string(v, &m->pre, err);
	}
	return read_array_key(v, key, m, err);
}

static int read_meta(kp_str bytes, struct kp_gguf_meta *m, struct kp_err *err)
{
	struct kp_gguf g;
	struct kp_gguf_value v;
	kp_str prefix = KP_S("tokenizer.ggml.");
	*m = (struct kp_gguf_meta){ .lowercase = true };
	kp_id *ids[] = { &m->bos, &m->eos, &m->eot, &m->eom, &m->pad, &m->unk, &m->sep, &m->mask,
		&m->fim_pre, &m->fim_suf, &m->fim_mid, &m->fim_pad, &m->fim_rep, &m->fim_sep };
	for (size_t i = 0; i < KP_LEN(ids); i++) {
		*ids[i] = KP_NO_ID;
	}
	if (kp_gguf_open(&g, bytes, KP_TOKEN_MAX_INPUT, err)) {
		return -1;
	}
	for (;;) {
		int r = kp_gguf_next(&g, &v, err);
		if (r <= 0) {
			return r;
		}
		if (kp_str_starts(v.key, prefix)) {
			r = read_key(&v, kp_str_skip(v.key, prefix.n), m, err);
		} else if (kp_str_eq(v.key, KP_S("tokenizer.chat_template"))) {
			r = read_string(&v, &m->chat_template, err);
		} else if (kp_str_eq(v.key, KP_S("general.architecture"))) {
			r = read_string(&v, &m->architecture, err);
		} else if (kp_str_eq(v.key, KP_S("general.name"))) {
			r = read_string(&v, &m->name, err);
		} else {
			r = 0;
		}
		if (r) {
			return -1;
		}
	}
}

/* --- building ---------------------------------------------------------------------------------------------------- */

static int add_merges(struct kp_build *b, struct kp_gguf_meta *m, struct kp_err *err)
{
	kp_str text;
	if (!m->has_merges && !kp_str_eq(m->pre, KP_S("kimi-k2"))) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load GGUF: no `tokenizer.ggml.merges`");
	}
	while (kp_gguf_string(&m->merges, &text)) {
		ptrdiff_t cut = kp_str_find_char(
			kp_str_skip(text, 1), ' '); /* the first side has at least one byte */
		if (cut < 0 || !kp_utf8_ok(text)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load merge %zu `%" KP_FMT "`: not two tokens", b->merges.n,
				KP_ARG(kp_str_sub(text, 0, 80)));
		}
		if (kp_build_merge(b, kp_str_sub(text, 0, (size_t)cut + 1),
			    kp_str_skip(text, (size_t)cut + 2), err)) {
			return -1;
		}
	}
	return 0;
}

/* llama.cpp's rank of a score; equal scores are one. */
static int make_ranks(struct kp_tokenizer *t, struct kp_err *err)
{
	t->model.rank = kp_spm_ranks(t->model.score, t->vocab.n);
	return t->model.rank
		       ? 0
		       : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "load `%zu` scores", t->vocab.n);
}

/* Every byte's token <0xNN>. */
static int find_bytes(struct kp_tokenizer *t, struct kp_err *err)
{
	for (unsigned c = 0; c < 256; c++) {
		t->model.byte[c] = KP_BPE_NO_ID;
	}
	for (kp_id id = 0; id < t->vocab.n; id++) {
		int byte = kp_decoder_byte(kp_vocab_bytes(&t->vocab, id));
		if (byte >= 0 && (t->vocab.tok[id].flags & KP_TOK_KNOWN)) {
			t->model.byte[byte] = id;
		}
	}
	for (unsigned c = 0; c < 256; c++) {
		if (t->model.byte[c] == KP_BPE_NO_ID) {
			return kp_err_set(
				err, KP_UNIMPLEMENTED, "load GGUF: no token for byte `%u`", c);
		}
	}
	return 0;
}

static void spaces_from_marks(struct kp_decoder *d)
{
	d->step[d->n++] = (struct kp_decoder_step){ .kind = KP_DEC_REPLACE,
		.pattern = kp_pattern_literal(KP_S("\xe2\x96\x81")),
		.text = KP_S(" ") };
}

static void marks_from_spaces(struct kp_norm *n)
{
	n->step[n->n++] = (struct kp_norm_step){ .kind = KP_NORM_REPLACE,
		.pattern = kp_pattern_literal(KP_S(" ")),
		.text = KP_S("\xe2\x96\x81") };
}

static int set_spm(struct kp_build *b, const struct kp_gguf_meta *m, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	if (!m->has_prefix || m->add_prefix) {
		t->norm.step[t->norm.n++] = (struct kp_norm_step){ .kind = KP_NORM_PREPEND,
			.text = KP_S("\xe2\x96\x81") };
	}
	marks_from_spaces(&t->norm);
	spaces_from_marks(&t->decoder);
	t->model.kind = KP_MODEL_SPM_BPE;
	t->model.byte_fallback = true;
	t->model.unk = m->unk == KP_NO_ID ? KP_BPE_NO_ID : m->unk;
	return find_bytes(t, err) || make_ranks(t, err) ? -1 : 0;
}

static int set_ugm(struct kp_build *b, const struct kp_gguf_meta *m, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	struct kp_norm_step *step = &t->norm.step[t->norm.n++];
	*step = (struct kp_norm_step){
		.kind = KP_NORM_UGM, .left = m->add_prefix, .right = m->merge_spaces
	};
	kp_str blob;
	if (m->charsmap.n && (kp_arena_dup(t->arena, m->charsmap.bytes, &blob, err) ||
				     kp_charsmap_init(&step->map, blob, err))) {
		return -1;
	}
	double least = (double)FLT_MAX;
	for (kp_id id = 0; id < t->vocab.n; id++) {
		const struct kp_tok *tok = &t->vocab.tok[id];
		if ((tok->flags & KP_TOK_WORD) && tok->shape == 0) {
			least = KP_MIN(least, t->model.score[id]);
		}
	}
	spaces_from_marks(&t->decoder);
	t->model.kind = KP_MODEL_UNIGRAM;
	t->model.unk = m->unk == KP_NO_ID ? KP_BPE_NO_ID : m->unk;
	t->model.unk_score = (double)((float)least - 10.0F);
	kp_buf_add(&b->parts, m->charsmap.bytes);
	return 0;
}

static void set_wpm(struct kp_build *b, const struct kp_gguf_meta *m)
{
	struct kp_tokenizer *t = b->t;
	t->norm.step[t->norm.n++] = (struct kp_norm_step){ .kind = KP_NORM_WPM,
		.left = m->lowercase,
		.right = m->has_accents ? m->strip_accents : m->lowercase };
	t->split.step[t->split.n++] =
		(struct kp_split_step){ .kind = KP_SPLIT_SPACE, .behavior = KP_SPLIT_REMOVED };
	spaces_from_marks(&t->decoder);
	t->model.kind = KP_MODEL_WORDPIECE;
	t->model.max_chars = SIZE_MAX;
	t->model.unk = m->unk == KP_NO_ID ? KP_BPE_NO_ID : m->unk;
}

static int set_gemma4(struct kp_build *b, struct kp_gguf_meta *m, struct kp_err *err)
{
	static const char *const lines[] = { "\\n+", NULL };
	struct kp_tokenizer *t = b->t;
	if (add_merges(b, m, err) || kp_gguf_patterns(t, lines, err)) {
		return -1;
	}
	marks_from_spaces(&t->norm);
	spaces_from_marks(&t->decoder);
	t->model.kind = KP_MODEL_BPE;
	t->model.byte_fallback = t->model.whole_lines = true;
	t->model.unk = KP_BPE_NO_ID;
	return find_bytes(t, err);
}

static int find_model(struct kp_gguf_meta *m, struct kp_err *err)
{
	size_t i = 0;
	while (i < KP_LEN(models) && !kp_str_eq(m->model, kp_str_c(models[i].model))) {
		i++;
	}
	if (i == KP_LEN(models)) {
		return kp_err_set(err, KP_UNIMPLEMENTED, "load GGUF: tokenizer model `%" KP_FMT "`",
			KP_ARG(kp_str_sub(m->model, 0, 80)));
	}
	m->kind = models[i].kind;
	kp_id *ids[] = { &m->bos, &m->eos, &m->unk, &m->sep, &m->pad };
	const kp_id defaults[] = { models[i].bos, models[i].eos, models[i].unk, models[i].sep,
		models[i].pad };
	for (size_t k = 0; k < KP_LEN(ids); k++) {
		bool none = defaults[k] >= m->tokens.n ||
			    (ids[k] == &m->bos && (kp_str_eq(m->pre, KP_S("chatglm-bpe")) ||
							  kp_str_starts(m->pre, KP_S("glm"))));
		*ids[k] = *ids[k] != KP_NO_ID ? *ids[k] : none ? KP_NO_ID : defaults[k];
	}
	return 0;
}

static int set_model(struct kp_build *b, struct kp_gguf_meta *m, bool *add_bos, struct kp_err *err)
{
	if (m->kind == KP_GGUF_BPE) {
		return kp_gguf_pre(b, m->pre, add_bos, err) || add_merges(b, m, err) ? -1 : 0;
	}
	b->t->pretok = (struct kp_pretok){ .name = "split" };
	b->t->info.kind = kp_arena_printf(b->t->arena, "gguf:%" KP_FMT, KP_ARG(m->model));
	kp_buf_printf(&b->parts, "%" KP_FMT " %d %d %d %d %d", KP_ARG(m->model),
		!m->has_prefix || m->add_prefix, m->merge_spaces, m->lowercase, m->has_accents,
		m->strip_accents);
	*add_bos = m->kind == KP_GGUF_SPM || m->kind == KP_GGUF_GEMMA4;
	switch (m->kind) {
	case KP_GGUF_SPM:
		return set_spm(b, m, err);
	case KP_GGUF_UGM:
		return set_ugm(b, m, err);
	case KP_GGUF_GEMMA4:
		return set_gemma4(b, m, err);
	case KP_GGUF_WPM:
	case KP_GGUF_BPE:
	default:
		set_wpm(b, m);
		return 0;
	}
}

static int build(
	struct kp_build *b, struct kp_gguf_meta *m, struct kp_tokenizer **ret, struct kp_err *err)
{
	double *score = NULL;
	bool add_bos = false;
	if (find_model(m, err)) {
		return -1;
	}
	bool scored = m->kind == KP_GGUF_SPM || m->kind == KP_GGUF_UGM;
	if (scored) {
		size_t n = (size_t)KP_MIN(m->tokens.n, (uint64_t)KP_BPE_MAX_TOKENS);
		if (!m->has_scores || m->scores.n < m->tokens.n) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load GGUF: `tokenizer.ggml.scores` has %llu entries for %llu tokens",
				(unsigned long long)m->scores.n, (unsigned long long)m->tokens.n);
		}
		score = kp_try_malloc((n + 1) * sizeof(*score));
		if (!score) {
			return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "load `%zu` scores", n);
		}
		b->t->model.score = score;
		b->t->model.n_scores = n;
	}
	kp_str name;
	if (kp_arena_dup(b->t->arena, m->name, &name, err)) {
		return -1;
	}
	for (size_t i = 0; i < name.n; i++) {
		((char *)(uintptr_t)name.p)[i] = kp_lower(name.p[i]);
	}
	m->name = name;
	b->text = m->kind != KP_GGUF_BPE;
	if (kp_gguf_tokens(b, m, score, err) || set_model(b, m, &add_bos, err) ||
		kp_gguf_roles(b, m, add_bos, err)) {
		return -1;
	}
	if (scored) {
		kp_buf_add(&b->parts, kp_str_n(score, b->t->vocab.n * sizeof(*score)));
	}
	return kp_build_finish(b, ret, err);
}

int kp_tokenizer_from_gguf(kp_str bytes, struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_gguf_meta m;
	struct kp_build b;
	if (read_meta(bytes, &m, err)) {
		return -1;
	}
	int r = kp_build_init(&b, err);
	if (r == 0) {
		r = build(&b, &m, ret, err);
	}
	kp_build_fini(&b);
	return r;
}
