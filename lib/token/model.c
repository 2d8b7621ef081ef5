/* DESIGN: the models of Hugging Face tokenizers 0.23.3 over text (tokenizers/src/models), result by result.

   BPE starts from characters (with prefix and suffix where the model has them), an unknown one gives byte tokens or the unknown token, then merges
   as any other (bpe.h). A model without pre-tokenizer has the whole text as one piece; it is cut where no merge
   can reach over (borders.h), so that pieces are short and cached, unless unknown tokens could fuse over such a place.

   Unigram is the best path through the pieces that the vocabulary has at each place; of equal paths the one found first stays, as in the reference.
   WordPiece takes the longest piece each time. */
#include "token/model.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/bpe_ascii.h"
#include "token/unicode.h"

#include <string.h>

struct kp_model_node {
	double score;
	uint32_t from; /* where the best piece that ends here begins; UINT32_MAX: none does */
	kp_id id;
};

void kp_model_work_fini(struct kp_model_work *w)
{
	kp_ids_fini(&w->syms);
	kp_spm_work_fini(&w->spm);
	kp_free(&w->node);
	w->cap = 0;
}

static int no_unk(struct kp_err *err)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"encode text: it needs the `unknown token`, which the model does not have");
}

/* Byte tokens of s, if there is one for each byte. */
static bool add_byte_tokens(const struct kp_model *m, kp_str s, struct kp_ids *ids)
{
	for (size_t i = 0; i < s.n; i++) {
		if (m->byte[(uint8_t)s.p[i]] == KP_BPE_NO_ID) {
			return false;
		}
	}
	for (size_t i = 0; i < s.n; i++) {
		kp_ids_add(ids, m->byte[(uint8_t)s.p[i]]);
	}
	return true;
}

/* --- BPE ------------------------------------------------------------------------------------------------------------- */

static kp_id find_char(const struct kp_model *m, const struct kp_vocab *v, uint32_t cp, kp_str s)
{
	return cp < KP_MODEL_DIRECT ? m->char_id[cp] : kp_vocab_find(v, s);
}

/* The first symbols of a piece. */
static int symbols(const struct kp_model *m, const struct kp_vocab *v, kp_str piece,
	struct kp_effort *effort, struct kp_ids *out, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf dressed; /* a character with prefix or suffix */
	kp_buf_init(&dressed, 1 << 20);
	bool dress = m->prefix.n || m->suffix.n, unk = false;
	size_t len;
	for (size_t at = 0; at < piece.n; at += len) {
		uint32_t cp = kp_uc_get((const uint8_t *)piece.p + at, &len);
		kp_str s = kp_str_sub(piece, at, at + len);
		if (dress) {
			kp_buf_reset(&dressed);
			kp_buf_add(&dressed, at ? m->prefix : KP_S(""));
			kp_buf_add(&dressed, s);
			kp_buf_add(&dressed, at + len == piece.n ? m->suffix : KP_S(""));
			s = kp_buf_str(&dressed);
			if (!kp_effort_spend(effort, s.n / 16)) {
				return kp_effort_fail(effort, err);
			}
		}
		kp_id id = dress ? kp_vocab_find(v, s) : find_char(m, v, cp, s);
		if (id != KP_BPE_NO_ID) {
			if (unk) {
				kp_ids_add(out, m->unk);
			}
			unk = false;
			kp_ids_add(out, id);
		} else if (m->byte_fallback && add_byte_tokens(m, s, out)) {
			continue; /* an unknown token before it stays waiting, as in the reference */
		} else if (m->unk_named) {
			if (m->unk == KP_BPE_NO_ID) {
				return no_unk(err);
			}
			if (unk && !m->fuse_unk) {
				kp_ids_add(out, m->unk);
			}
			unk = true;
		}
	}
	if (unk) {
		kp_ids_add(out, m->unk);
	}
	return 0;
}

static int merge_symbols(const struct kp_model *m, const struct kp_vocab *v, const struct kp_bpe *b,
	kp_str piece, struct kp_model_work *w, struct kp_ids *ids, struct kp_err *err)
{
	kp_ids_reset(&w->syms);
	w->syms.max = SIZE_MAX / 16;
	if (symbols(m, v, piece, w->effort, &w->syms, err)) {
		return -1;
	}
	if (w->syms.failed) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", piece.n);
	}
	return kp_bpe_symbols(b, w->syms.p, w->syms.n, ids, err);
}

static int encode_bpe(const struct kp_model *m, const struct kp_vocab *v, const struct kp_bpe *b,
	kp_str piece, struct kp_model_work *w, struct kp_ids *ids, struct kp_err *err)
{
	if (m->ignore_merges || (m->whole_lines && piece.p[0] == '\n')) {
		kp_id id = kp_vocab_find(v, piece);
		if (id != KP_BPE_NO_ID) {
			kp_ids_add(ids, id);
			return 0;
		}
	}
	/* b->ascii: nothing but merges crosses a border between ASCII characters. */
	while (b->ascii && piece.n > KP_BPE_SMALL) {
		size_t done, apart;
		if (kp_bpe_ascii(b, (const uint8_t *)piece.p, piece.n, ids, &done, &apart, err)) {
			return -1;
		}
		kp_str next = kp_str_sub(piece, done, done + apart);
		if (next.n && merge_symbols(m, v, b, next, w, ids, err)) {
			return -1;
		}
		piece = kp_str_skip(piece, done + apart);
	}
	return piece.n ? merge_symbols(m, v, b, piece, w, ids, err) : 0;
}

size_t kp_model_symbols(
	const struct kp_model *m, const struct kp_vocab *v, const uint8_t *p, size_t n, kp_id *sym)
{
	size_t k = 0, len;
	for (size_t at = 0; at < n; at += len) {
		uint32_t cp = kp_uc_get(p + at, &len);
		kp_id id = find_char(m, v, cp, kp_str_n((const char *)p + at, len));
		if (KP_LIKELY(id != KP_BPE_NO_ID)) {
			sym[k++] = id;
			continue;
		}
		for (size_t i = 0; i < len; i++) {
			sym[k++] = m->byte[p[at + i]];
		}
	}
	return k;
}

size_t kp_model_small(const struct kp_model *m, const struct kp_vocab *v, const struct kp_bpe *b,
	const uint8_t *p, size_t n, kp_id *out)
{
	kp_id sym[KP_BPE_SMALL];
	return kp_bpe_small_symbols(b, sym, kp_model_symbols(m, v, p, n, sym), out);
}

size_t kp_model_cut(const struct kp_model *m, kp_str piece)
{
	const uint8_t *p = (const uint8_t *)piece.p;
	return kp_borders_next(&m->borders, p, p + piece.n);
}

/* A character that is no token: may its neighbourhood be cut? Only if it always becomes byte tokens that merge with nothing. */
static bool unknown_is_inert(const struct kp_model *m, const struct kp_bpe *b)
{
	for (size_t c = 0; c < 256; c++) {
		kp_id id = m->byte[c];
		if (!m->byte_fallback || id == KP_BPE_NO_ID || b->partners[id].left ||
			b->partners[id].right) {
			return false;
		}
	}
	return true;
}

/* Drops merges that never happen and finds the places where pieces may be cut. */
static int make_borders(
	struct kp_model *m, struct kp_vocab *v, struct kp_bpe *b, struct kp_err *err)
{
	if (m->prefix.n || m->suffix.n || m->ignore_merges || !unknown_is_inert(m, b)) {
		return 0;
	}
	uint8_t flags = m->whole_lines ? KP_TOK_WORD : KP_TOK_SELF;
	struct kp_merge *live = NULL;
	int r = kp_bpe_drop_dead(b, v, m->char_id, &live, err) ||
				kp_bpe_find_ascii(b, live, m->blank, err) ||
				kp_borders_create(&m->borders, v, flags, m->blank, err)
			? -1
			: 0;
	if (r == 0) {
		kp_borders_find_blanks(&m->borders, b, live, b->n_merges);
	}
	kp_mem_free(live);
	return r;
}

static int create_bpe(struct kp_model *m, struct kp_vocab *v, struct kp_bpe *b, struct kp_err *err)
{
	m->char_id = kp_try_malloc(KP_MODEL_DIRECT * sizeof(*m->char_id));
	if (!m->char_id) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` tokens", v->n);
	}
	for (uint32_t cp = 0; cp < KP_MODEL_DIRECT; cp++) {
		char text[4];
		size_t n = kp_utf8_encode(cp, text);
		bool surrogate = cp >= 0xd800 && cp < 0xe000;
		m->char_id[cp] = surrogate ? KP_BPE_NO_ID : kp_vocab_find(v, kp_str_n(text, n));
	}
	if (m->blank) {
		m->char_id[' '] = m->char_id[KP_BORDER_BLANK];
	}
	return make_borders(m, v, b, err);
}

/* --- Unigram ----------------------------------------------------------------------------------------------------------- */

static int reserve_nodes(struct kp_model_work *w, size_t n, struct kp_err *err)
{
	size_t bytes;
	if (n <= w->cap) {
		return 0;
	}
	kp_free(&w->node);
	w->cap = 0;
	if (n < UINT32_MAX && kp_size_mul(n, sizeof(*w->node), &bytes)) {
		w->node = kp_try_malloc(bytes);
	}
	if (!w->node) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	w->cap = n;
	return 0;
}

static inline bool improve(
	struct kp_model_node *to, double score, uint32_t from, kp_id id, double base)
{
	double candidate = score + base;
	if (to->from != UINT32_MAX && !(candidate > to->score)) {
		return false;
	}
	*to = (struct kp_model_node){ candidate, from, id };
	return true;
}

static int best_path(const struct kp_model *m, kp_str s, struct kp_effort *effort,
	struct kp_model_node *node, struct kp_err *err)
{
	const uint8_t *p = (const uint8_t *)s.p;
	for (size_t i = 0; i <= s.n; i++) {
		node[i] = (struct kp_model_node){ 0, UINT32_MAX, 0 };
	}
	size_t len;
	for (size_t at = 0; at < s.n; at += len) {
		double base = node[at].score;
		bool single = false;
		(void)kp_uc_get(p + at, &len);
		uint32_t n = KP_TRIE_ROOT;
		size_t k = at;
		for (; k < s.n; k++) {
			n = kp_trie_step(&m->trie, n, p[k]);
			if (n == KP_TRIE_NONE) {
				break;
			}
			kp_id id = m->trie.value[n];
			if (id != UINT32_MAX) {
				(void)improve(&node[k + 1], m->score[id], (uint32_t)at, id, base);
				single = single || k + 1 - at == len;
			}
		}
		if (!kp_effort_spend(effort, k - at)) {
			return kp_effort_fail(effort, err);
		}
		if (!single && improve(&node[at + len], m->unk_score, (uint32_t)at, m->unk, base) &&
			m->unk == KP_BPE_NO_ID) {
			return no_unk(err);
		}
	}
	return 0;
}

/* A run of unknown characters: perhaps a token after all, else bytes, else the unknown token. */
static int unknown_run(const struct kp_model *m, const struct kp_vocab *v, kp_str s,
	struct kp_ids *ids, struct kp_err *err)
{
	kp_id id = kp_vocab_find(v, s);
	if (id != KP_BPE_NO_ID) {
		kp_ids_add(ids, id);
	} else if (!m->byte_fallback || !add_byte_tokens(m, s, ids)) {
		if (m->unk == KP_BPE_NO_ID) {
			return no_unk(err);
		}
		kp_ids_add(ids, m->unk);
	}
	return 0;
}

static int encode_unigram(const struct kp_model *m, const struct kp_vocab *v, kp_str s,
	struct kp_model_work *w, struct kp_ids *ids, struct kp_err *err)
{
	if (reserve_nodes(w, s.n + 1, err) || best_path(m, s, w->effort, w->node, err)) {
		return -1;
	}
	/* Turn the path: from then on node[i].from is where the piece that begins at i ends. */
	size_t end = s.n;
	uint32_t next = (uint32_t)s.n;
	kp_id id = 0, id_here;
	while (end > 0) {
		uint32_t from = w->node[end].from;
		id_here = w->node[end].id;
		w->node[end].from = next;
		w->node[end].id = id;
		next = (uint32_t)end;
		id = id_here;
		end = from;
	}
	w->node[0].from = next;
	w->node[0].id = id;
	for (size_t at = 0; at < s.n;) {
		size_t to = w->node[at].from;
		if (w->node[at].id != m->unk) {
			kp_ids_add(ids, w->node[at].id);
			at = to;
			continue;
		}
		while (to < s.n && w->node[to].id == m->unk) {
			to = w->node[to].from;
		}
		if (unknown_run(m, v, kp_str_sub(s, at, to), ids, err)) {
			return -1;
		}
		at = to;
	}
	return 0;
}

/* --- WordPiece, WordLevel -------------------------------------------------------------------------------------------------- */

static int encode_wordpiece(const struct kp_model *m, kp_str s, struct kp_effort *effort,
	struct kp_ids *ids, struct kp_err *err)
{
	size_t before = ids->n, from = 0;
	bool bad = s.n > m->max_chars && kp_utf8_count(s) > m->max_chars;
	while (!bad && from < s.n) {
		uint32_t n = from ? m->prefix_node : (uint32_t)KP_TRIE_ROOT;
		kp_id id = KP_BPE_NO_ID;
		size_t to = from, k = from;
		for (; n != KP_TRIE_NONE && k < s.n; k++) {
			n = kp_trie_step(&m->trie, n, (uint8_t)s.p[k]);
			if (n != KP_TRIE_NONE && m->trie.value[n] != UINT32_MAX) {
				id = m->trie.value[n];
				to = k + 1;
			}
		}
		if (!kp_effort_spend(effort, k - from)) {
			return kp_effort_fail(effort, err);
		}
		bad = id == KP_BPE_NO_ID;
		if (!bad) {
			kp_ids_add(ids, id);
		}
		from = to;
	}
	if (!bad) {
		return 0;
	}
	if (m->unk == KP_BPE_NO_ID) {
		return no_unk(err);
	}
	ids->n = before;
	kp_ids_add(ids, m->unk);
	return 0;
}

static int create_trie(struct kp_model *m, const struct kp_vocab *v, struct kp_err *err)
{
	if (kp_trie_init(&m->trie, err)) {
		return -1;
	}
	for (kp_id id = 0; id < v->n; id++) {
		if ((v->tok[id].flags & KP_TOK_WORD) && v->tok[id].n &&
			kp_trie_add(&m->trie, kp_vocab_bytes(v, id), id, err)) {
			return -1;
		}
	}
	m->prefix_node = KP_TRIE_ROOT;
	for (size_t i = 0; i < m->prefix.n && m->prefix_node != KP_TRIE_NONE; i++) {
		m->prefix_node = kp_trie_step(&m->trie, m->prefix_node, (uint8_t)m->prefix.p[i]);
	}
	return 0;
}

int kp_model_create(struct kp_model *m, struct kp_vocab *v, struct kp_bpe *b, struct kp_err *err)
{
	switch (m->kind) {
	case KP_MODEL_BPE:
		return create_bpe(m, v, b, err);
	case KP_MODEL_UNIGRAM:
	case KP_MODEL_WORDPIECE:
	case KP_MODEL_SPM_UNIGRAM:
		return create_trie(m, v, err);
	case KP_MODEL_SPM_BPE:
		return m->byte_fallback ? kp_borders_create(&m->borders, v, KP_TOK_WORD, false, err)
					: 0;
	case KP_MODEL_BYTES:
	case KP_MODEL_WORDLEVEL:
	default:
		return 0;
	}
}

void kp_model_fini(struct kp_model *m)
{
	kp_trie_fini(&m->trie);
	kp_free(&m->score);
	kp_free(&m->rank);
	kp_free(&m->char_id);
	kp_borders_fini(&m->borders);
}

int kp_model_encode(const struct kp_model *m, const struct kp_vocab *v, const struct kp_bpe *b,
	kp_str piece, struct kp_model_work *w, struct kp_ids *ids, struct kp_err *err)
{
	int r;
	switch (m->kind) {
	case KP_MODEL_BPE:
		r = encode_bpe(m, v, b, piece, w, ids, err);
		break;
	case KP_MODEL_UNIGRAM:
		r = encode_unigram(m, v, piece, w, ids, err);
		break;
	case KP_MODEL_WORDPIECE:
		r = encode_wordpiece(m, piece, w->effort, ids, err);
		break;
	case KP_MODEL_SPM_BPE:
	case KP_MODEL_SPM_UNIGRAM:
		r = kp_spm_encode(m, v, piece, &w->spm, w->effort, ids, err);
		break;
	case KP_MODEL_BYTES:
	case KP_MODEL_WORDLEVEL:
	default: {
		kp_id id = kp_vocab_find(v, piece);
		id = id == KP_BPE_NO_ID ? m->unk : id;
		r = id == KP_BPE_NO_ID ? no_unk(err) : 0;
		if (r == 0) {
			kp_ids_add(ids, id);
		}
	}
	}
	if (r == 0 && ids->failed) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", piece.n);
	}
	return r;
}
