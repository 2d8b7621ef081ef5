/* DESIGN: the back half of loading, shared by all formats. Token texts are decoded from the byte alphabet into one blob while they
   are read; everything else is flat arrays over ids. Merges are looked up by their bytes. What was built is
   copied into one block at the end (image.h), and the tokenizer is made from that. One thread. */
#include "token/internal.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/hash.h"
#include "token/norm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kp_build_init(struct kp_build *b, struct kp_err *err)
{
	*b = (struct kp_build){ .t = kp_tokenizer_new(err) };
	kp_effort_begin(&b->effort, (size_t)4 << 20); /* some seconds */
	kp_bytelevel_init(&b->alphabet);
	kp_map_init(&b->odd);
	kp_buf_init(&b->blob, KP_TOKEN_MAX_INPUT);
	kp_buf_init(&b->pair, 2 * KP_TOKEN_MAX_TEXT);
	kp_buf_init(&b->parts, KP_TOKEN_MAX_INPUT);
	kp_buf_init(&b->wait_bytes, (size_t)KP_MERGES_WAIT * 2 * KP_TOKEN_MAX_TEXT);
	return b->t ? 0 : -1;
}

void kp_build_fini(struct kp_build *b)
{
	kp_tokenizer_unref(b->t);
	b->t = NULL;
	kp_buf_fini(&b->blob);
	kp_buf_fini(&b->pair);
	kp_buf_fini(&b->parts);
	kp_buf_fini(&b->wait_bytes);
	kp_map_fini(&b->odd, NULL);
	kp_vec_fini(&b->merges);
	kp_vec_fini(&b->added);
	kp_vec_fini(&b->eog);
}

/* Room for id in the table of tokens. */
static int reserve_id(struct kp_build *b, kp_id id, struct kp_err *err)
{
	struct kp_vocab *v = &b->t->vocab;
	if (id >= KP_BPE_NO_ID) {
		return kp_err_set(
			err, KP_TOO_LARGE, "load token `%u`: ids are below %d", id, KP_BPE_NO_ID);
	}
	if (id >= b->cap_tok) {
		size_t cap = KP_MAX((size_t)1024, b->cap_tok);
		while (cap <= id) {
			cap *= 2;
		}
		struct kp_tok *p = kp_try_realloc(v->tok, cap * sizeof(*p));
		if (!p) {
			return kp_err_set(
				err, KP_RESOURCE_EXHAUSTED, "load token `%u`: out of memory", id);
		}
		memset(p + b->cap_tok, 0, (cap - b->cap_tok) * sizeof(*p));
		v->tok = p;
		b->cap_tok = cap;
	}
	v->n = KP_MAX(v->n, (size_t)id + 1);
	return 0;
}

/* Appends what text decodes to (or text itself) and notes it as the id's bytes. */
static int put_bytes(struct kp_build *b, kp_id id, kp_str text, uint8_t flags, struct kp_err *err)
{
	if (reserve_id(b, id, err)) {
		return -1;
	}
	struct kp_tok *tok = &b->t->vocab.tok[id];
	size_t at = b->blob.n;
	if (b->text || b->raw) {
		kp_buf_add(&b->blob, text);
		flags |= flags & KP_TOK_ADDED ? 0 : KP_TOK_WORD;
	} else if (kp_bytelevel_decode(&b->alphabet, text, &b->blob)) {
		flags |= flags & KP_TOK_ADDED ? 0 : KP_TOK_WORD;
	} else {
		kp_buf_add(&b->blob, text);
		if (!(flags & KP_TOK_ADDED) &&
			kp_map_set(&b->odd, text, (void *)((uintptr_t)id + 1))) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load token `%u`: its text is there twice", id);
		}
	}
	b->t->vocab.blob = b->blob.p;
	if (kp_buf_finish(&b->blob, "vocabulary", err)) {
		return -1;
	}
	if (text.n > KP_TOKEN_MAX_TEXT) {
		return kp_err_set(err, KP_TOO_LARGE, "load token `%u`: %zu bytes, at most %d", id,
			text.n, KP_TOKEN_MAX_TEXT);
	}
	*tok = (struct kp_tok){
		.at = (uint32_t)at, .n = (uint16_t)(b->blob.n - at), .flags = flags | KP_TOK_KNOWN
	};
	return 0;
}

int kp_build_token(struct kp_build *b, kp_id id, kp_str text, struct kp_err *err)
{
	if (id < b->t->vocab.n && (b->t->vocab.tok[id].flags & KP_TOK_KNOWN)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "load token `%u`: given twice", id);
	}
	return put_bytes(b, id, text, 0, err);
}

int kp_build_index(struct kp_build *b, struct kp_err *err)
{
	return kp_vocab_index(&b->t->vocab, err);
}

kp_id kp_build_find(struct kp_build *b, kp_str text)
{
	kp_buf_reset(&b->pair);
	if (b->text || b->raw) {
		kp_id id = kp_vocab_find(&b->t->vocab, text);
		return id == KP_BPE_NO_ID ? KP_NO_ID : id;
	}
	if (kp_bytelevel_decode(&b->alphabet, text, &b->pair) && !b->pair.failed) {
		kp_id id = kp_vocab_find(&b->t->vocab, kp_buf_str(&b->pair));
		return id == KP_BPE_NO_ID ? KP_NO_ID : id;
	}
	uintptr_t odd = (uintptr_t)kp_map_get(&b->odd, text);
	return odd ? (kp_id)(odd - 1) : KP_NO_ID;
}

/* The product of a merge: mostly that of the one before, or the next id. */
static kp_id find_product(const struct kp_build *b, kp_str bytes)
{
	const struct kp_vocab *v = &b->t->vocab;
	kp_id id = b->merges.n ? b->merges.p[b->merges.n - 1].product : KP_BPE_NO_ID;
	for (kp_id end = id + 2; id < end && id < v->n; id++) {
		if ((v->tok[id].flags & KP_TOK_WORD) && kp_str_eq(kp_vocab_bytes(v, id), bytes)) {
			return id;
		}
	}
	return kp_vocab_find(v, bytes);
}

/* Looks up a merge whose sides' bytes are whole[0, cut) and the rest. */
static int put_merge(struct kp_build *b, const struct kp_merge_wait *w, struct kp_err *err)
{
	struct kp_vocab *v = &b->t->vocab;
	kp_str whole = kp_str_n(b->wait_bytes.p + w->at, w->n), right = kp_str_skip(whole, w->cut);
	struct kp_merge m = { kp_vocab_find(v, kp_str_sub(whole, 0, w->cut)),
		kp_vocab_find(v, right), KP_BPE_NO_ID };
	if (b->strip_prefix == 0) {
		m.product = find_product(b, whole);
	} else if (right.n >= b->strip_prefix) {
		kp_buf_reset(&b->pair);
		kp_buf_add(&b->pair, kp_str_sub(whole, 0, w->cut));
		kp_buf_add(&b->pair, kp_str_skip(right, b->strip_prefix));
		m.product = b->pair.failed ? KP_BPE_NO_ID : kp_vocab_find(v, kp_buf_str(&b->pair));
	}
	if (!w->ok || m.left == KP_BPE_NO_ID || m.right == KP_BPE_NO_ID ||
		m.product == KP_BPE_NO_ID) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load merge %zu `%" KP_FMT " %" KP_FMT "`: not in the vocabulary",
			b->merges.n, KP_ARG(kp_str_sub(w->left, 0, 40)),
			KP_ARG(kp_str_sub(w->right, 0, 40)));
	}
	if (b->merges.n == KP_BPE_MAX_MERGES) {
		return kp_err_set(
			err, KP_TOO_LARGE, "load merges: more than `%d`", KP_BPE_MAX_MERGES);
	}
	kp_vec_push(&b->merges, m);
	return 0;
}

/* Looks up the merges that wait. Each look-up goes from slot to token to bytes, none of which is in the cache, so all of them are asked for
   before the first one is needed. */
static int put_waiting(struct kp_build *b, struct kp_err *err)
{
	const struct kp_vocab *v = &b->t->vocab;
	size_t n = b->n_wait;
	b->n_wait = 0;
	for (size_t i = 0; i < 2 * n && v->n; i++) {
		uint32_t e = v->slot[b->wait[i / 2].hash[i & 1] & v->slot_mask];
		__builtin_prefetch(&v->tok[e ? (e & 0xfffff) - 1 : 0]);
	}
	for (size_t i = 0; i < 2 * n && v->n; i++) {
		uint32_t e = v->slot[b->wait[i / 2].hash[i & 1] & v->slot_mask];
		__builtin_prefetch(v->blob + v->tok[e ? (e & 0xfffff) - 1 : 0].at);
	}
	for (size_t i = 0; i < n; i++) {
		if (put_merge(b, &b->wait[i], err)) {
			return -1;
		}
	}
	kp_buf_reset(&b->wait_bytes);
	return 0;
}

int kp_build_merge(struct kp_build *b, kp_str left, kp_str right, struct kp_err *err)
{
	struct kp_vocab *v = &b->t->vocab;
	struct kp_buf *bytes = &b->wait_bytes;
	struct kp_merge_wait w = { .left = left, .right = right, .at = (uint32_t)bytes->n };
	if (left.n <= KP_TOKEN_MAX_TEXT && right.n <= KP_TOKEN_MAX_TEXT) {
		if (b->text) {
			kp_buf_add(bytes, left);
			w.cut = (uint32_t)(bytes->n - w.at);
			kp_buf_add(bytes, right);
			w.ok = true;
		} else if (kp_bytelevel_decode(&b->alphabet, left, bytes)) {
			w.cut = (uint32_t)(bytes->n - w.at);
			w.ok = kp_bytelevel_decode(&b->alphabet, right, bytes);
		}
	}
	if (kp_buf_finish(bytes, "merges", err)) {
		return -1;
	}
	w.n = (uint32_t)(bytes->n - w.at);
	w.hash[0] = kp_hash_bytes(bytes->p + w.at, w.cut);
	w.hash[1] = kp_hash_bytes(bytes->p + w.at + w.cut, w.n - w.cut);
	__builtin_prefetch(&v->slot[w.hash[0] & v->slot_mask]);
	__builtin_prefetch(&v->slot[w.hash[1] & v->slot_mask]);
	b->wait[b->n_wait++] = w;
	return b->n_wait == KP_MERGES_WAIT ? put_waiting(b, err) : 0;
}

int kp_build_added(struct kp_build *b, kp_id id, kp_str text, uint8_t flags, struct kp_err *err)
{
	if (b->added.n == KP_TOKEN_MAX_ADDED) {
		return kp_err_set(
			err, KP_TOO_LARGE, "load added tokens: more than `%d`", KP_TOKEN_MAX_ADDED);
	}
	struct kp_added a = { .id = id, .flags = flags };
	if (kp_arena_dup(b->t->arena, text, &a.shown, err)) {
		return -1;
	}
	a.text = a.shown;
	uint8_t tok = KP_TOK_ADDED | (flags & KP_ADDED_SPECIAL ? KP_TOK_SPECIAL : 0);
	if (id < b->t->vocab.n && (b->t->vocab.tok[id].flags & KP_TOK_KNOWN)) {
		b->t->vocab.tok[id].flags |=
			tok; /* a vocabulary token keeps its bytes and its merges */
	} else if (put_bytes(b, id, text, tok, err)) {
		return -1;
	}
	kp_vec_push(&b->added, a);
	return 0;
}

int kp_build_eog(struct kp_build *b, kp_id id, struct kp_err *err)
{
	for (size_t i = 0; i < b->eog.n; i++) {
		if (b->eog.p[i] == id) {
			return 0;
		}
	}
	if (id >= b->t->vocab.n || !(b->t->vocab.tok[id].flags & KP_TOK_KNOWN)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load end-of-generation token `%u`: no such id", id);
	}
	if (b->eog.n == KP_TOKEN_MAX_EOG) {
		return kp_err_set(err, KP_TOO_LARGE,
			"load end-of-generation tokens: more than `%d`", KP_TOKEN_MAX_EOG);
	}
	kp_vec_push(&b->eog, id);
	return 0;
}

/* --- finish ------------------------------------------------------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
	const struct kp_added *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

static bool is_special_text(const struct kp_build *b, kp_str text)
{
	for (size_t i = 0; i < b->added.n; i++) {
		if ((b->added.p[i].flags & KP_ADDED_SPECIAL) &&
			kp_str_eq(b->added.p[i].shown, text)) {
			return true;
		}
	}
	return false;
}

/* A normalized added token is matched by the normalized form of its text, and decodes to that. The reference asks for the decoded form
   when it skips special tokens, so such a token is skipped only if a special token is written like that. */
static int normalize_added(struct kp_build *b, struct kp_added *a, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	static const struct kp_norm nfc = { .step[0].kind = KP_NORM_NFC, .n = 1 };
	if (!(t->nfc || t->norm.n) || !(a->flags & KP_ADDED_NORMALIZED) ||
		(a->flags & KP_ADDED_SYMBOL)) {
		return 0;
	}
	struct kp_norm_work work;
	kp_str out;
	kp_norm_work_init(&work);
	work.find.effort = &b->effort;
	int r = kp_norm_run(
		t->nfc ? &nfc : &t->norm, a->shown, false, 4 * KP_TOKEN_MAX_TEXT, &work, &out, err);
	bool same = r == 0 && kp_str_eq(out, a->shown);
	if (r == 0 && !same && out.n == 0) {
		r = kp_err_set(err, KP_UNIMPLEMENTED,
			"load added token `%" KP_FMT "`: nothing is left of it when normalized",
			KP_ARG(kp_str_sub(a->shown, 0, 80)));
	}
	if (r == 0 && !same) {
		r = kp_arena_dup(t->arena, out, &a->text, err);
	}
	kp_norm_work_fini(&work);
	if (r || same) {
		return r;
	}
	uint8_t special = is_special_text(b, a->text) ? KP_TOK_SPECIAL : 0;
	if (t->vocab.tok[a->id].flags & KP_TOK_WORD) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load added token `%" KP_FMT
			"`: a token of the vocabulary that normalization changes",
			KP_ARG(kp_str_sub(a->shown, 0, 80)));
	}
	return put_bytes(b, a->id, a->text, KP_TOK_ADDED | special, err);
}

static int finish_added(struct kp_build *b, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	size_t n = b->added.n;
	t->added = kp_arena_calloc(t->arena, n + 1, sizeof(*t->added));
	if (!t->added) {
		return kp_arena_full(err, "added tokens");
	}
	t->n_added = n;
	if (n) {
		memcpy(t->added, b->added.p, n * sizeof(*t->added));
		qsort(t->added, n, sizeof(*t->added), by_id);
	}
	for (size_t i = 0; i < n; i++) {
		if (i && t->added[i].id == t->added[i - 1].id) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load added token `%u`: given twice", t->added[i].id);
		}
		if (normalize_added(b, &t->added[i], err)) {
			return -1;
		}
	}
	return 0;
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	return kp_hash_fold(h, kp_hash_bytes(p, n) ^ n);
}

static uint64_t fingerprint(const struct kp_build *b)
{
	const struct kp_tokenizer *t = b->t;
	uint64_t h = mix(1, t->pretok.name, strlen(t->pretok.name));
	unsigned char switches[] = { t->nfc, t->ignore_merges, b->keep_last, b->drop_gaps,
		(unsigned char)t->model.kind, b->text };
	h = mix(h, switches, sizeof(switches));
	h = mix(h, b->parts.p, b->parts.n);
	h = mix(h, b->blob.p, b->blob.n);
	h = mix(h, t->vocab.tok, t->vocab.n * sizeof(*t->vocab.tok));
	h = mix(h, b->merges.p, b->merges.n * sizeof(*b->merges.p));
	for (size_t i = 0; i < t->n_added; i++) {
		h = mix(h ^ t->added[i].flags, t->added[i].text.p, t->added[i].text.n);
		h = mix(h, &t->added[i].id, sizeof(kp_id));
	}
	h = mix(h, t->prefix, t->n_prefix * sizeof(kp_id));
	return mix(h, t->suffix, t->n_suffix * sizeof(kp_id));
}

/* Text of a special token, as its file has it. */
static kp_str text_of(const struct kp_tokenizer *t, kp_id id)
{
	size_t i = id == KP_NO_ID ? SIZE_MAX : kp_added_index(t, id);
	if (i != SIZE_MAX) {
		return t->added[i].shown;
	}
	return id == KP_NO_ID ? KP_S("") : kp_tokenizer_token_bytes(t, id);
}

static void finish_info(struct kp_build *b)
{
	struct kp_tokenizer *t = b->t;
	kp_id *eog = kp_arena_xalloc(t->arena, (b->eog.n + 1) * sizeof(kp_id));
	if (b->eog.n) {
		memcpy(eog, b->eog.p, b->eog.n * sizeof(kp_id));
	}
	t->info.eog = eog;
	t->info.n_eog = b->eog.n;
	t->info.vocab_size = t->vocab.n;
	t->info.bos_text = text_of(t, t->info.bos);
	t->info.eos_text = text_of(t, t->info.eos);
	t->info.pad_text = text_of(t, t->info.pad);
	t->info.unk_text = text_of(t, t->info.unk);
	t->info.add_bos = t->n_prefix && t->prefix[0] == t->info.bos;
	t->info.fingerprint = fingerprint(b);
}

static int check_ids(const struct kp_tokenizer *t, const kp_id *ids, size_t n, struct kp_err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] >= t->vocab.n || !(t->vocab.tok[ids[i]].flags & KP_TOK_KNOWN)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load post-processor token `%u`: no such id", ids[i]);
		}
	}
	return 0;
}

static int finish_bytes(struct kp_build *b, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	t->bpe.by_product = b->by_product;
	return kp_bpe_create(&t->bpe, &t->vocab, b->merges.p, b->merges.n, b->keep_last,
		       b->drop_gaps, err) ||
			       kp_words_create(&t->words, &t->vocab,
				       t->ignore_merges ? KP_TOK_WORD : KP_TOK_SELF, false, err)
		       ? -1
		       : 0;
}

static bool is_literal(const struct kp_pattern *p, const char *text)
{
	return p->literal.p && kp_str_eq(p->literal, kp_str_c(text));
}

/* Does the chain before the model only write blanks as "▁", and split nothing? */
static bool only_marks(const struct kp_tokenizer *t)
{
	const struct kp_norm_step *n = t->norm.step;
	const struct kp_split_step *s = t->split.step;
	bool splits =
		t->split.n > 1 || (t->split.n == 1 && !(s->kind == KP_SPLIT_PATTERN && !s->invert &&
							      is_literal(&s->pattern, " ")));
	return !t->nfc && !t->pretok.run && !splits && t->norm.n == 1 && t->normalized.n == 0 &&
	       n->kind == KP_NORM_REPLACE && is_literal(&n->pattern, " ") &&
	       kp_str_eq(n->text, KP_S("▁"));
}

static int finish_text(struct kp_build *b, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	bool own = t->model.kind == KP_MODEL_SPM_BPE || t->model.kind == KP_MODEL_SPM_UNIGRAM;
	for (unsigned c = 0; c < 256 && !own; c++) {
		char name[8];
		int n = snprintf(name, sizeof(name), "<0x%02X>", c);
		t->model.byte[c] = kp_vocab_find(&t->vocab, kp_str_n(name, (size_t)n));
	}
	if (t->model.kind == KP_MODEL_BPE &&
		kp_bpe_create_text(&t->bpe, &t->vocab, b->merges.p, b->merges.n, err)) {
		return -1;
	}
	t->model.blank = t->model.kind == KP_MODEL_BPE && !t->model.whole_lines && only_marks(t) &&
			 kp_vocab_find(&t->vocab, KP_S("▁")) != KP_BPE_NO_ID;
	if (kp_model_create(&t->model, &t->vocab, &t->bpe, err)) {
		return -1;
	}
	t->cut_text = t->model.blank && t->model.borders.set;
	if (t->cut_text) {
		t->pretok = kp_pretok_text;
		return kp_words_create(&t->words, &t->vocab, KP_TOK_SELF, true, err);
	}
	return 0;
}

/* What each token reads as when it is neither first nor last. */
static int decode_token(
	struct kp_build *b, kp_id id, struct kp_buf *blob, struct kp_buf *last, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	struct kp_decoder *d = &t->decoder;
	struct kp_find_work work = { .effort = &b->effort };
	struct kp_tok *to = &t->decoded.tok[id];
	size_t at = blob->n;
	size_t added = to->shape == KP_SHAPE_RAW ? kp_added_index(t, id) : SIZE_MAX;
	if (to->shape == KP_SHAPE_UNK) {
		kp_buf_add(blob, d->unknown);
	} else if (added != SIZE_MAX) {
		kp_buf_add(blob, t->added[added].shown);
	} else if (to->shape == KP_SHAPE_BYTE) {
		kp_buf_addc(blob, (char)kp_decoder_byte(kp_vocab_bytes(&t->vocab, id)));
	} else if (to->shape != KP_SHAPE_HIDDEN) {
		bool there = kp_decoder_token(
			d, kp_vocab_bytes(&t->vocab, id), false, false, &work, blob, err);
		to->flags |= there ? 0 : KP_TOK_GONE;
	}
	if (d->fallback && to->shape == 0) {
		int byte = kp_decoder_byte(kp_str_skip(kp_buf_str(blob), at));
		if (byte >= 0) {
			blob->n = at;
			kp_buf_addc(blob, (char)byte);
			to->flags |= KP_TOK_BYTE;
		}
	}
	if (d->any_last) {
		kp_buf_reset(last);
		(void)kp_decoder_token(
			d, kp_vocab_bytes(&t->vocab, id), false, true, &work, last, err);
		bool same = kp_str_eq(kp_buf_str(last), kp_str_skip(kp_buf_str(blob), at));
		to->flags |= same ? 0 : KP_TOK_WAIT;
	}
	kp_find_work_fini(&work);
	if (b->effort.is_over) {
		(void)kp_effort_fail(&b->effort, err);
		return kp_err_wrap(err, "load token `%u`: its text", id);
	}
	if (blob->failed || blob->n - at > UINT16_MAX) {
		return kp_err_set(err, KP_TOO_LARGE, "load token `%u`: reads as too much text", id);
	}
	to->at = (uint32_t)at;
	to->n = (uint16_t)(blob->n - at);
	return 0;
}

static int finish_decoder(struct kp_build *b, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	t->decoded = t->vocab;
	bool shapes = false;
	for (kp_id id = 0; id < t->vocab.n && !shapes; id++) {
		shapes = t->vocab.tok[id].shape != 0;
	}
	if (t->decoder.n == 0 && t->decoder.n_ops == 0 && !t->decoder.fallback && !shapes) {
		return 0;
	}
	t->decoded.tok = kp_try_malloc(t->vocab.n * sizeof(*t->vocab.tok));
	t->decoded_blob = kp_try_malloc(1);
	if (!t->decoded.tok || !t->decoded_blob) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "load vocabulary: `%zu` tokens", t->vocab.n);
	}
	memcpy(t->decoded.tok, t->vocab.tok, t->vocab.n * sizeof(*t->vocab.tok));
	KP_AUTO(buf) struct kp_buf blob;
	KP_AUTO(buf) struct kp_buf last;
	kp_buf_init(&blob, KP_TOKEN_MAX_INPUT);
	kp_buf_init(&last, KP_TOKEN_MAX_INPUT);
	for (kp_id id = 0; id < t->vocab.n; id++) {
		if ((t->vocab.tok[id].flags & KP_TOK_KNOWN) &&
			decode_token(b, id, &blob, &last, err)) {
			return -1;
		}
	}
	char *p = kp_try_realloc(t->decoded_blob, blob.n + 1);
	if (!p) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "load vocabulary: `%zu` bytes", blob.n);
	}
	memcpy(p, blob.p, blob.n);
	p[blob.n] = 0;
	t->decoded_blob = p;
	t->decoded.blob = p;
	t->decoded.blob_n = blob.n + 1;
	return 0;
}

int kp_build_finish(struct kp_build *b, struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_tokenizer *t = b->t;
	if (t->vocab.n == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "load vocabulary: `0` tokens");
	}
	if (put_waiting(b, err) || check_ids(t, t->prefix, t->n_prefix, err) ||
		check_ids(t, t->suffix, t->n_suffix, err)) {
		return -1;
	}
	if (finish_added(b, err)) {
		return -1;
	}
	kp_buf_addc(&b->blob, 0); /* never empty */
	t->vocab.blob = b->blob.p;
	t->vocab.blob_n = b->blob.n;
	if (kp_buf_finish(&b->blob, "vocabulary", err)) {
		return -1;
	}
	if (b->text ? finish_text(b, err) : finish_bytes(b, err)) {
		return -1;
	}
	if (finish_decoder(b, err)) {
		return -1;
	}
	finish_info(b);
	kp_rows_find(t);
	struct kp_token_image image;
	if (kp_token_image_make(t, &image, err)) {
		return -1;
	}
	if (kp_token_image_open(image, ret, err)) {
		kp_token_image_fini(&image);
		return -1;
	}
	return 0;
}
