/* DESIGN: what llama.cpp makes of the tokens (its llama_vocab::impl::load): types, and texts that it takes for control tokens whatever their type says.
   Control, unknown and user-defined tokens are cut out of text; all but the user-defined ones are skipped by skip_special, and shown as their texts. A
   token that it shows as nothing (unused ones) decodes to nothing here.

   llama.cpp cuts tokens out longest first over the whole text, the rest of this module leftmost first. The two agree unless two of them can
   overlap such that the right one is longer; then the matcher looks whether it does (added.c, longest_first). Where the order of
   two as long ones would decide, it is not known, and the vocabulary is refused. */
#include "token/gguf_load.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <float.h>
#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 4, USER = 8, BYTE = 16 }; /* what a token is */

/* Texts that make a token a control token, the first one of each kind of which the metadata does not give the id. */
enum kind { KIND_EOT, KIND_EOM, KIND_PRE, KIND_SUF, KIND_MID, KIND_PAD, KIND_REP, KIND_SEP, KINDS };
static const struct {
	enum kind kind;
	const char *text;
} kinds[] = {
	{ KIND_EOT, "<|eot_id|>" },
	{ KIND_EOT, "<|im_end|>" },
	{ KIND_EOT, "<|end|>" },
	{ KIND_EOT, "<end_of_turn>" },
	{ KIND_EOT, "<|endoftext|>" },
	{ KIND_EOT, "<|end_of_text|>" },
	{ KIND_EOT, "<EOT>" },
	{ KIND_EOT, "_<EOT>" },
	{ KIND_EOT, "[EOT]" },
	{ KIND_EOT, "<｜end▁of▁sentence｜>" },
	{ KIND_EOT, "<end_of_utterance>" },
	{ KIND_EOM, "<|eom_id|>" },
	{ KIND_PRE, "<|fim_prefix|>" },
	{ KIND_PRE, "<fim-prefix>" },
	{ KIND_PRE, "<fim_prefix>" },
	{ KIND_PRE, "<｜fim▁begin｜>" },
	{ KIND_PRE, "<PRE>" },
	{ KIND_PRE, "▁<PRE>" },
	{ KIND_PRE, "<|code_prefix|>" },
	{ KIND_PRE, "<|prefix|>" },
	{ KIND_SUF, "<|fim_suffix|>" },
	{ KIND_SUF, "<fim-suffix>" },
	{ KIND_SUF, "<fim_suffix>" },
	{ KIND_SUF, "<｜fim▁hole｜>" },
	{ KIND_SUF, "<SUF>" },
	{ KIND_SUF, "▁<SUF>" },
	{ KIND_SUF, "<|code_suffix|>" },
	{ KIND_SUF, "<|suffix|>" },
	{ KIND_MID, "<|fim_middle|>" },
	{ KIND_MID, "<fim-middle>" },
	{ KIND_MID, "<fim_middle>" },
	{ KIND_MID, "<｜fim▁end｜>" },
	{ KIND_MID, "<MID>" },
	{ KIND_MID, "▁<MID>" },
	{ KIND_MID, "<|code_middle|>" },
	{ KIND_MID, "<|middle|>" },
	{ KIND_PAD, "<|fim_pad|>" },
	{ KIND_PAD, "<fim-pad>" },
	{ KIND_PAD, "<fim_pad>" },
	{ KIND_PAD, "<PAD>" },
	{ KIND_PAD, "[PAD]" },
	{ KIND_REP, "<|fim_repo|>" },
	{ KIND_REP, "<|repo_name|>" },
	{ KIND_REP, "<fim-repo>" },
	{ KIND_REP, "<REPO>" },
	{ KIND_REP, "<reponame>" },
	{ KIND_SEP, "<|file_sep|>" },
};
/* Texts that end a generation. */
static const char *const ends[] = { "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
	"<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>",
	"_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
	"<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[" };
/* gpt-oss's, which llama.cpp always shows. */
static const char *const shown[] = { "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>" };

struct vocab {
	struct kp_build *b;
	struct kp_gguf_meta *m;
	uint8_t *is;  /* by id: NORMAL and the like */
	kp_str *text; /* by id */
	size_t n;
	struct kp_map by_text; /* id + 1 */
	kp_id kind[KINDS];
};

static kp_id find(const struct vocab *v, const char *text)
{
	uintptr_t id = (uintptr_t)kp_map_get(&v->by_text, kp_str_c(text));
	return id ? (kp_id)(id - 1) : KP_NO_ID;
}

static uint8_t type_of(int32_t type)
{
	switch (type) {
	case TYPE_NORMAL:
		return NORMAL;
	case TYPE_UNKNOWN:
		return UNKNOWN;
	case TYPE_CONTROL:
		return CONTROL;
	case TYPE_USER:
		return USER;
	case TYPE_BYTE:
		return BYTE;
	default:
		return 0;
	}
}

static int read_tokens(struct vocab *v, struct kp_err *err)
{
	kp_str text;
	for (kp_id id = 0; kp_gguf_string(&v->m->tokens, &text); id++) {
		int32_t type = TYPE_NORMAL;
		if (v->m->has_types && !kp_gguf_i32(&v->m->types, &type)) {
			return kp_err_set(err, KP_INTERNAL, "load token `%u`: no type", id);
		}
		if (!kp_utf8_ok(text)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "load token `%u`: invalid UTF-8", id);
		}
		if (text.n == 0) {
			text = kp_arena_printf(v->b->t->arena, "[EMPTY_%u]", id);
		}
		v->text[id] = text;
		v->is[id] = type_of(type);
		if (kp_map_set(&v->by_text, text, (void *)((uintptr_t)id + 1))) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load token `%u`: its text is there twice", id);
		}
	}
	return 0;
}

/* Tokens that count as control tokens for their text. llama.cpp takes any one of those of a kind; more than one whose type says otherwise
   is refused. */
static int find_kinds(struct vocab *v, struct kp_err *err)
{
	const kp_id given[KINDS] = { v->m->eot, v->m->eom, v->m->fim_pre, v->m->fim_suf,
		v->m->fim_mid, v->m->fim_pad, v->m->fim_rep, v->m->fim_sep };
	bool open[KINDS]; /* one that was no control token is taken */
	for (size_t k = 0; k < KINDS; k++) {
		v->kind[k] = given[k];
		open[k] = false;
	}
	for (size_t i = 0; i < KP_LEN(kinds); i++) {
		enum kind k = kinds[i].kind;
		kp_id id = find(v, kinds[i].text);
		if (id == KP_NO_ID || given[k] != KP_NO_ID) {
			continue;
		}
		bool ends_anyway = k == KIND_EOT || k == KIND_EOM;
		bool changes = !(v->is[id] & CONTROL) && !ends_anyway;
		if (v->kind[k] != KP_NO_ID && (changes || open[k])) {
			return kp_err_set(err, KP_UNIMPLEMENTED,
				"load token `%u`: one of two that may count as `%s`", id,
				kinds[i].text);
		}
		open[k] = changes;
		v->is[id] |= CONTROL;
		v->kind[k] = id;
	}
	return 0;
}

static int add_end(struct vocab *v, kp_id id, bool *end, struct kp_err *err)
{
	if (id == KP_NO_ID) {
		return 0;
	}
	if (id >= v->n) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load GGUF: special token id `%u` is no token", id);
	}
	end[id] = true;
	return 0;
}

/* What ends a generation, with the corrections for gpt-oss and Gemma 4. */
static int find_ends(struct vocab *v, bool *end, struct kp_err *err)
{
	if (add_end(v, v->kind[KIND_PAD], end, err) || add_end(v, v->kind[KIND_REP], end, err) ||
		add_end(v, v->kind[KIND_SEP], end, err)) {
		return -1;
	}
	for (size_t i = 0; i < KP_LEN(ends); i++) {
		kp_id id = find(v, ends[i]);
		if (id != KP_NO_ID) {
			end[id] = true;
			v->is[id] |= CONTROL;
		}
	}
	for (size_t i = 0; i < KP_LEN(shown); i++) {
		kp_id id = find(v, shown[i]);
		if (id != KP_NO_ID) {
			v->is[id] = USER;
		}
	}
	if (add_end(v, v->m->eos, end, err) || add_end(v, v->kind[KIND_EOT], end, err) ||
		add_end(v, v->kind[KIND_EOM], end, err)) {
		return -1;
	}
	kp_id stop = find(v, "<|end|>");
	bool call = find(v, "<|call|>") != KP_NO_ID || find(v, "<|calls|>") != KP_NO_ID;
	bool last = find(v, "<|return|>") != KP_NO_ID || find(v, "<|flush|>") != KP_NO_ID;
	if (stop != KP_NO_ID && end[stop] && call && last) {
		end[stop] = false;
		v->is[stop] = USER;
	}
	kp_id s = find(v, "</s>");
	if (s != KP_NO_ID && end[s] && find(v, "<|tool_response>") != KP_NO_ID) {
		end[s] = false;
		v->is[s] = NORMAL;
	}
	return 0;
}

static bool has(kp_str s, const char *part)
{
	return kp_str_has(s, kp_str_c(part));
}

/* White space that tokens swallow: by name of the model, as llama.cpp has it. */
static uint8_t strips(const struct vocab *v, kp_id id)
{
	const struct kp_gguf_meta *m = v->m;
	kp_str text = v->text[id];
	if (has(m->pre, "jina-v2-de") || has(m->pre, "jina-v2-es") || has(m->pre, "jina-v2-code") ||
		has(m->architecture, "nomic-bert-moe") || has(m->architecture, "jina-bert-v3")) {
		return kp_str_eq(text, KP_S("<mask>")) ? KP_ADDED_LSTRIP | KP_ADDED_ASCII : 0;
	}
	if (has(m->name, "phi-3") || has(m->name, "phi3")) {
		bool not = kp_str_eq(text, KP_S("<unk>")) || kp_str_eq(text, KP_S("<s>")) ||
			   kp_str_eq(text, KP_S("<|endoftext|>"));
		return not ? 0 : KP_ADDED_RSTRIP | KP_ADDED_ASCII;
	}
	return has(m->name, "modern-bert") && kp_str_eq(text, KP_S("[MASK]"))
		       ? KP_ADDED_LSTRIP | KP_ADDED_ASCII
		       : 0;
}

static int add_token(struct vocab *v, kp_id id, struct kp_err *err)
{
	struct kp_build *b = v->b;
	enum kp_gguf_kind kind = v->m->kind;
	uint8_t is = v->is[id];
	bool special = is & (CONTROL | UNKNOWN), cut = special || (is & USER);
	if ((is & USER) && kind == KP_GGUF_UGM) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load token `%u`: a user-defined one in a `t5` vocabulary", id);
	}
	if ((is & BYTE) && (kind == KP_GGUF_BPE || kp_decoder_byte(v->text[id]) < 0)) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load token `%u`: a byte token `%" KP_FMT "`", id,
			KP_ARG(kp_str_sub(v->text[id], 0, 80)));
	}
	if (kp_build_token(b, id, v->text[id], err)) {
		return -1;
	}
	struct kp_tok *tok = &b->t->vocab.tok[id];
	kp_str bytes = kp_vocab_bytes(&b->t->vocab, id);
	if (cut) {
		tok->shape =
			kind == KP_GGUF_BPE && kp_str_eq(bytes, v->text[id]) ? 0 : KP_SHAPE_RAW;
	} else {
		tok->shape = is & BYTE ? KP_SHAPE_BYTE : is & NORMAL ? 0 : KP_SHAPE_HIDDEN;
	}
	/* What no join of the reference gives, or no client's text may. */
	if ((kind == KP_GGUF_SPM && cut) || (kind == KP_GGUF_UGM && (cut || (is & BYTE)))) {
		tok->flags &= (uint8_t)~KP_TOK_WORD;
	}
	uint8_t flags = special ? KP_ADDED_SPECIAL : 0;
	return cut ? kp_build_added(b, id, v->text[id], flags | strips(v, id), err) : 0;
}

static bool one_char(kp_str s)
{
	for (size_t i = 1; i < s.n; i++) {
		if (s.p[i] != s.p[0]) {
			return false;
		}
	}
	return true;
}

/* Can a text hold a and, beginning within it and ending behind it, b? */
static bool overlap(kp_str a, kp_str b)
{
	for (size_t k = 1; k < a.n && k < b.n; k++) {
		if (a.p[a.n - k] == b.p[0] && memcmp(a.p + a.n - k, b.p, k) == 0) {
			return true;
		}
	}
	return false;
}

/* Compares each pair, but only those whose bytes can meet; so many steps at most. */
static int check_overlap(struct kp_build *b, struct kp_err *err)
{
	enum { STEPS = 1 << 28 };
	const struct kp_added *p = b->added.p;
	bool first[256] = { false };
	size_t steps = 0;
	for (size_t i = 0; i < b->added.n; i++) {
		first[(uint8_t)p[i].text.p[0]] = true;
	}
	for (size_t i = 0; i < b->added.n; i++) {
		kp_str a = p[i].text;
		bool may = false;
		for (size_t k = 1; k < a.n && !may; k++) {
			may = first[(uint8_t)a.p[k]];
		}
		for (size_t k = 0; may && k < b->added.n; k++) {
			kp_str c = p[k].text;
			size_t least = KP_MIN(a.n, c.n);
			steps += 1 + least * least / 8;
			if (steps > STEPS) {
				return kp_err_set(err, KP_TOO_LARGE,
					"load GGUF: `%zu` special tokens, too many or too long",
					b->added.n);
			}
			bool runs = a.p[0] == c.p[0] && one_char(a) && one_char(c);
			if (i == k || runs || c.n < a.n || !overlap(a, c)) {
				continue;
			}
			if (c.n == a.n || overlap(c, c)) {
				return kp_err_set(err, KP_UNIMPLEMENTED,
					"load GGUF: special tokens `%" KP_FMT "` and `%" KP_FMT
					"` can overlap",
					KP_ARG(kp_str_sub(a, 0, 80)), KP_ARG(kp_str_sub(c, 0, 80)));
			}
			b->t->longest_first = true;
		}
	}
	return 0;
}

static int add_all(struct vocab *v, double *score, struct kp_err *err)
{
	bool *end = kp_arena_calloc(v->b->t->arena, v->n + 1, sizeof(*end));
	if (!end) {
		return kp_arena_full(err, "vocabulary");
	}
	if (read_tokens(v, err) || find_kinds(v, err) || find_ends(v, end, err)) {
		return -1;
	}
	for (kp_id id = 0; id < v->n; id++) {
		int32_t bits = 0;
		float f;
		if (score && !kp_gguf_i32(&v->m->scores, &bits)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "load token `%u`: no score", id);
		}
		memcpy(&f, &bits, sizeof(f));
		if (!(f >= -FLT_MAX && f <= FLT_MAX)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load token `%u`: its score is no number", id);
		}
		if (score) {
			score[id] = (double)f;
		}
		if (add_token(v, id, err) || (end[id] && kp_build_eog(v->b, id, err))) {
			return -1;
		}
	}
	return check_overlap(v->b, err) || kp_build_index(v->b, err) ? -1 : 0;
}

int kp_gguf_tokens(struct kp_build *b, struct kp_gguf_meta *m, double *score, struct kp_err *err)
{
	if (m->has_types && m->types.n < m->tokens.n) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load GGUF: `tokenizer.ggml.token_type` has %llu entries for %llu tokens",
			(unsigned long long)m->types.n, (unsigned long long)m->tokens.n);
	}
	if (m->tokens.n >= KP_BPE_NO_ID) {
		return kp_err_set(err, KP_TOO_LARGE, "load GGUF: `%llu` tokens, fewer than %d",
			(unsigned long long)m->tokens.n, KP_BPE_NO_ID);
	}
	struct vocab v = { .b = b, .m = m, .n = (size_t)m->tokens.n };
	v.is = kp_try_malloc((v.n + 1) * sizeof(*v.is));
	v.text = kp_try_malloc((v.n + 1) * sizeof(*v.text));
	kp_map_init(&v.by_text);
	int r = v.is && v.text ? add_all(&v, score, err)
			       : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "load `%zu` tokens", v.n);
	kp_map_fini(&v.by_text, NULL);
	kp_free(&v.is);
	kp_free(&v.text);
	return r;
}

int kp_gguf_roles(
	struct kp_build *b, const struct kp_gguf_meta *m, bool add_bos, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	bool wpm = m->kind == KP_GGUF_WPM;
	bool add_eos = m->has_add_eos ? m->add_eos : m->kind == KP_GGUF_UGM;
	kp_id end = wpm ? m->sep : m->eos;
	add_bos = wpm || (m->has_add_bos && m->kind != KP_GGUF_GEMMA4 ? m->add_bos : add_bos);
	const kp_id ids[] = { m->bos, m->eos, m->pad, m->unk, m->sep };
	for (size_t i = 0; i < KP_LEN(ids); i++) {
		if (ids[i] != KP_NO_ID && ids[i] >= t->vocab.n) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load GGUF: special token id `%u` is no token", ids[i]);
		}
	}
	t->info.bos = m->bos;
	t->info.eos = m->eos;
	t->info.pad = m->pad;
	t->info.unk = m->unk;
	if ((add_bos && m->bos == KP_NO_ID) || ((add_eos || wpm) && end == KP_NO_ID)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load GGUF: `add_%s_token` without its id",
			add_bos && m->bos == KP_NO_ID ? "bos" : "eos");
	}
	if (add_bos) {
		t->prefix[t->n_prefix++] = m->bos;
	}
	if (add_eos || wpm) {
		t->suffix[t->n_suffix++] = end;
	}
	return kp_load_template(t, m->chat_template, err);
}
