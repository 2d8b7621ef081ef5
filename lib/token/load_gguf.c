/* DESIGN: GGUF metadata to a tokenizer, as llama.cpp reads it (its src/llama-vocab.cpp is the reference): model `gpt2`, the pre-tokenizers of the
   table below. Two passes over the keys: collect, then build. A `tokenizer.` key that this code does not know is refused,
   since it may change ids.

   llama.cpp cuts special tokens out longest text first, the rest of this module leftmost first; the two agree unless two special
   tokens can overlap in a text, so such a vocabulary is refused. A byte that is no token separates its neighbours and gives no id. */
#include "token/gguf.h"
#include "token/internal.h"
#include "token/load.h"
#include "base/utf8.h"

#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED };

static const struct {
	const char *pre;
	const struct kp_pretok *pretok;
	bool add_bos;
} pres[] = {
	{ "smollm", &kp_pretok_smollm, false },
};

/* Control tokens with these texts end a generation. */
static const char *const end_texts[] = { "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>",
	"<|call|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>",
	"<end_of_utterance>" };

/* Keys that say nothing about ids of a BPE tokenizer, or that are checked elsewhere. */
static const char *const ignored[] = { "scores", "token_type_count", "add_space_prefix",
	"separator_token_id", "seperator_token_id", "cls_token_id", "mask_token_id",
	"fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id", "fim_pad_token_id",
	"fim_rep_token_id", "fim_sep_token_id", "prefix_token_id", "suffix_token_id",
	"middle_token_id" };

struct meta {
	kp_str model, pre, chat_template;
	struct kp_gguf_array tokens, types, merges;
	bool has_types, has_add_bos, add_bos, add_eos;
	kp_id bos, eos, eot, eom, pad, unk;
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

static int read_bool(const struct kp_gguf_value *v, bool *ret, struct kp_err *err)
{
	if (v->type != KP_GGUF_BOOL) {
		return wrong_type(v, err);
	}
	*ret = v->u != 0;
	return 0;
}

static int read_array(
	const struct kp_gguf_value *v, uint32_t type, struct kp_gguf_array *ret, struct kp_err *err)
{
	bool ok = v->type == KP_GGUF_ARRAY &&
		  (v->a.type == type || (type == KP_GGUF_I32 && v->a.type == KP_GGUF_U32));
	if (!ok) {
		return wrong_type(v, err);
	}
	*ret = v->a;
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

static int read_key(const struct kp_gguf_value *v, kp_str key, struct meta *m, struct kp_err *err)
{
	const struct {
		const char *key;
		kp_id *id;
	} ids[] = { { "bos_token_id", &m->bos }, { "eos_token_id", &m->eos },
		{ "eot_token_id", &m->eot }, { "eom_token_id", &m->eom },
		{ "padding_token_id", &m->pad }, { "unknown_token_id", &m->unk } };
	for (size_t i = 0; i < KP_LEN(ids); i++) {
		if (kp_str_eq(key, kp_str_c(ids[i].key))) {
			return read_id(v, ids[i].id, err);
		}
	}
	if (kp_str_eq(key, KP_S("model"))) {
		return read_string(v, &m->model, err);
	}
	if (kp_str_eq(key, KP_S("pre"))) {
		return read_string(v, &m->pre, err);
	}
	if (kp_str_eq(key, KP_S("tokens"))) {
		return read_array(v, KP_GGUF_STRING, &m->tokens, err);
	}
	if (kp_str_eq(key, KP_S("merges"))) {
		return read_array(v, KP_GGUF_STRING, &m->merges, err);
	}
	if (kp_str_eq(key, KP_S("token_type"))) {
		m->has_types = true;
		return read_array(v, KP_GGUF_I32, &m->types, err);
	}
	if (kp_str_eq(key, KP_S("add_bos_token"))) {
		m->has_add_bos = true;
		return read_bool(v, &m->add_bos, err);
	}
	if (kp_str_eq(key, KP_S("add_eos_token"))) {
		return read_bool(v, &m->add_eos, err);
	}
	if (is_one_of(key, ignored, KP_LEN(ignored))) {
		return 0;
	}
	return kp_err_set(err, KP_UNIMPLEMENTED,
		"load GGUF: unknown key `tokenizer.ggml.%" KP_FMT "`",
		KP_ARG(kp_str_sub(key, 0, 80)));
}

static int read_meta(kp_str bytes, struct meta *m, struct kp_err *err)
{
	struct kp_gguf g;
	struct kp_gguf_value v;
	kp_str prefix = KP_S("tokenizer.ggml.");
	*m = (struct meta){ .bos = KP_NO_ID,
		.eos = KP_NO_ID,
		.eot = KP_NO_ID,
		.eom = KP_NO_ID,
		.pad = KP_NO_ID,
		.unk = KP_NO_ID };
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
		} else {
			r = 0;
		}
		if (r) {
			return -1;
		}
	}
}

/* --- building ---------------------------------------------------------------------------------------------------- */

static int add_token(struct kp_build *b, kp_id id, kp_str text, int32_t type, struct kp_err *err)
{
	if (!kp_utf8_ok(text)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "load token `%u`: invalid UTF-8", id);
	}
	bool end = is_one_of(text, end_texts, KP_LEN(end_texts));
	if (type < TYPE_NORMAL || type > TYPE_UNUSED) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load token `%u`: type %d in a BPE vocabulary", id, type);
	}
	if (kp_build_token(b, id, text, err)) {
		return -1;
	}
	/* llama.cpp takes a token with such a text for a control token whatever its type says. */
	bool special = type == TYPE_CONTROL || type == TYPE_UNKNOWN || end;
	if (text.n && (special || type == TYPE_USER)) {
		if (kp_build_added(b, id, text, special ? KP_ADDED_SPECIAL : 0, err)) {
			return -1;
		}
	}
	return end ? kp_build_eog(b, id, err) : 0;
}

static int add_tokens(struct kp_build *b, struct meta *m, struct kp_err *err)
{
	kp_str text;
	if (m->has_types && m->types.n != m->tokens.n) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load GGUF: `tokenizer.ggml.token_type` has %llu entries for %llu tokens",
			(unsigned long long)m->types.n, (unsigned long long)m->tokens.n);
	}
	for (kp_id id = 0; kp_gguf_string(&m->tokens, &text); id++) {
		int32_t type = TYPE_NORMAL;
		if (m->has_types && !kp_gguf_i32(&m->types, &type)) {
			return kp_err_set(err, KP_INTERNAL, "load token `%u`: no type", id);
		}
		if (add_token(b, id, text, type, err)) {
			return -1;
		}
	}
	return kp_build_index(b, err);
}

static int add_merges(struct kp_build *b, struct meta *m, struct kp_err *err)
{
	kp_str text;
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

/* Can a text hold a and b such that they overlap, neither within the other? */
static bool overlap(kp_str a, kp_str b)
{
	for (size_t k = 1; k < a.n && k < b.n; k++) {
		if (a.p[a.n - k] == b.p[0] && memcmp(a.p + a.n - k, b.p, k) == 0) {
			return true;
		}
	}
	return false;
}

static int check_overlap(const struct kp_build *b, struct kp_err *err)
{
	enum { MAX = 2048 };
	if (b->added.n > MAX) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load GGUF: `%zu` special tokens, at most %d", b->added.n, MAX);
	}
	for (size_t i = 0; i < b->added.n; i++) {
		for (size_t k = 0; k < b->added.n; k++) {
			if (i != k && overlap(b->added.p[i].text, b->added.p[k].text)) {
				return kp_err_set(err, KP_UNIMPLEMENTED,
					"load GGUF: special tokens `%" KP_FMT "` and `%" KP_FMT
					"` can overlap",
					KP_ARG(kp_str_sub(b->added.p[i].text, 0, 80)),
					KP_ARG(kp_str_sub(b->added.p[k].text, 0, 80)));
			}
		}
	}
	return 0;
}

static int set_roles(struct kp_build *b, const struct meta *m, bool add_bos, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	const kp_id ids[] = { m->bos, m->eos, m->eot, m->eom, m->pad, m->unk };
	for (size_t i = 0; i < KP_LEN(ids); i++) {
		if (ids[i] != KP_NO_ID &&
			(ids[i] >= t->vocab.n || !(t->vocab.tok[ids[i]].flags & KP_TOK_KNOWN))) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load GGUF: special token id `%u` is no token", ids[i]);
		}
	}
	for (size_t i = 1; i <= 3; i++) {
		if (ids[i] != KP_NO_ID && kp_build_eog(b, ids[i], err)) {
			return -1;
		}
	}
	t->info.bos = m->bos;
	t->info.eos = m->eos;
	t->info.pad = m->pad;
	t->info.unk = m->unk;
	if ((add_bos && m->bos == KP_NO_ID) || (m->add_eos && m->eos == KP_NO_ID)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load GGUF: `add_%s_token` without its id", add_bos ? "bos" : "eos");
	}
	if (add_bos) {
		t->prefix[t->n_prefix++] = m->bos;
	}
	if (m->add_eos) {
		t->suffix[t->n_suffix++] = m->eos;
	}
	return kp_load_template(t, m->chat_template, err);
}

static int build(struct kp_build *b, struct meta *m, struct kp_tokenizer **ret, struct kp_err *err)
{
	if (!kp_str_eq(m->model, KP_S("gpt2"))) {
		return kp_err_set(err, KP_UNIMPLEMENTED, "load GGUF: tokenizer model `%" KP_FMT "`",
			KP_ARG(kp_str_sub(m->model, 0, 80)));
	}
	size_t i = 0;
	while (i < KP_LEN(pres) && !kp_str_eq(m->pre, kp_str_c(pres[i].pre))) {
		i++;
	}
	if (i == KP_LEN(pres)) {
		return kp_err_set(err, KP_UNIMPLEMENTED, "load GGUF: pre-tokenizer `%" KP_FMT "`",
			KP_ARG(kp_str_sub(m->pre, 0, 80)));
	}
	b->t->pretok = *pres[i].pretok;
	b->t->info.kind = kp_arena_printf(b->t->arena, "gguf:%s", pres[i].pre);
	bool add_bos = m->has_add_bos ? m->add_bos : pres[i].add_bos;
	return add_tokens(b, m, err) || add_merges(b, m, err) || check_overlap(b, err) ||
			       set_roles(b, m, add_bos, err) || kp_build_finish(b, ret, err)
		       ? -1
		       : 0;
}

int kp_tokenizer_from_gguf(kp_str bytes, struct kp_tokenizer **ret, struct kp_err *err)
{
	struct meta m;
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
