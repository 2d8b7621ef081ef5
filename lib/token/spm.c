/* DESIGN: SentencePiece's two models (its src/bpe_model.cc, src/unigram_model.cc, 0.2.3), over normalized text.

   BPE joins two neighbours whenever their text together is a piece, highest score first, then leftmost; scores become ranks at load. Pieces of type UNUSED are joined
   and taken apart again at the end. Unigram is the best path in single precision, as the reference adds it, with its shift of the scores when they grow
   large. An unknown character becomes bytes, or unknown ones in a row one unknown token. User-defined pieces of BPE are cut out before (added.h), so the
   models never see them. */
#include "token/model.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { RESEGMENT_DEPTH = 100 };

struct kp_spm_symbol {
	uint32_t at, n; /* n == 0: gone into its left neighbour */
	uint32_t prev, next;
};
struct kp_spm_pair {
	uint64_t key; /* rank << 32 | left */
	uint32_t right, n;
};

void kp_spm_work_fini(struct kp_spm_work *w)
{
	kp_free(&w->block);
	w->cap = 0;
}

/* Memory for n symbols and 3 n pairs, or n + 1 floats and positions. */
static int reserve(struct kp_spm_work *w, size_t n, struct kp_err *err)
{
	size_t bytes, each = sizeof(struct kp_spm_symbol) + 3 * sizeof(struct kp_spm_pair);
	if (n + 1 > w->cap) {
		kp_spm_work_fini(w);
		if (n < UINT32_MAX - 1 && kp_size_mul(n + 1, each, &bytes)) {
			w->block = kp_try_malloc(bytes);
		}
		if (!w->block) {
			return kp_err_set(
				err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
		}
		w->cap = n + 1;
	}
	return 0;
}

/* --- BPE ----------------------------------------------------------------------------------------------------------------- */

struct queue {
	struct kp_spm_pair *p;
	size_t n;
};

static void push(struct queue *q, struct kp_spm_pair x)
{
	size_t i = q->n++;
	while (i && q->p[(i - 1) / 4].key > x.key) {
		q->p[i] = q->p[(i - 1) / 4];
		i = (i - 1) / 4;
	}
	q->p[i] = x;
}

static struct kp_spm_pair pop(struct queue *q)
{
	struct kp_spm_pair top = q->p[0], x = q->p[--q->n];
	size_t i = 0;
	for (;;) {
		size_t c = 4 * i + 1, best = c;
		if (c >= q->n) {
			break;
		}
		for (size_t k = c + 1; k < KP_MIN(c + 4, q->n); k++) {
			best = q->p[k].key < q->p[best].key ? k : best;
		}
		if (q->p[best].key >= x.key) {
			break;
		}
		q->p[i] = q->p[best];
		i = best;
	}
	q->p[i] = x;
	return top;
}

struct joining {
	const struct kp_model *m;
	const struct kp_vocab *v;
	kp_str s;
	struct kp_spm_symbol *sym;
	struct queue q;
	struct kp_effort *effort;
};

static void offer(struct joining *j, uint32_t left, uint32_t right)
{
	if (left == UINT32_MAX || right == UINT32_MAX) {
		return;
	}
	const struct kp_spm_symbol *a = &j->sym[left], *b = &j->sym[right];
	if (!kp_effort_spend(j->effort, 1 + (a->n + b->n) / 16)) {
		return;
	}
	kp_id id = kp_vocab_find(j->v, kp_str_sub(j->s, a->at, a->at + a->n + b->n));
	if (id != KP_BPE_NO_ID) {
		push(&j->q, (struct kp_spm_pair){
				    (uint64_t)j->m->rank[id] << 32 | left, right, a->n + b->n });
	}
}

static bool is_unused(const struct kp_vocab *v, kp_id id)
{
	return v->tok[id].shape == KP_SHAPE_UNUSED;
}

struct output {
	const struct kp_model *m;
	const struct kp_vocab *v;
	struct kp_ids *ids;
	bool unk; /* the last one was unknown */
};

static void put(struct output *o, kp_str s, kp_id id)
{
	bool unk = id == KP_BPE_NO_ID;
	if (!unk) {
		kp_ids_add(o->ids, id);
	} else if (o->m->byte_fallback) {
		for (size_t i = 0; i < s.n; i++) {
			kp_ids_add(o->ids, o->m->byte[(uint8_t)s.p[i]]);
		}
	} else if (!o->unk) {
		kp_ids_add(o->ids, o->m->unk);
	}
	o->unk = unk;
}

/* Joins until no pair is left, or `least` symbols are. */
static void join(struct joining *j, uint32_t n, uint32_t least)
{
	while (j->q.n && n > least && !kp_effort_is_over(j->effort)) {
		struct kp_spm_pair top = pop(&j->q);
		uint32_t left = (uint32_t)top.key;
		struct kp_spm_symbol *a = &j->sym[left], *b = &j->sym[top.right];
		if (a->n == 0 || b->n == 0 || a->n + b->n != top.n) {
			continue;
		}
		a->n += b->n;
		a->next = b->next;
		if (b->next != UINT32_MAX) {
			j->sym[b->next].prev = left;
		}
		b->n = 0;
		n--;
		offer(j, a->prev, left);
		offer(j, left, a->next);
	}
}

/* The characters as symbols, their pairs in the queue; how many. */
static uint32_t split_symbols(struct joining *j)
{
	size_t n = 0, len;
	for (size_t at = 0; at < j->s.n; at += len) {
		(void)kp_uc_get((const uint8_t *)j->s.p + at, &len);
		j->sym[n] = (struct kp_spm_symbol){ (uint32_t)at, (uint32_t)len, (uint32_t)n - 1,
			(uint32_t)n + 1 };
		n++;
	}
	j->sym[0].prev = UINT32_MAX;
	j->sym[n - 1].next = UINT32_MAX;
	for (uint32_t i = 0; i + 1 < n; i++) {
		offer(j, i, i + 1);
	}
	return (uint32_t)n;
}

/* Takes an unused piece apart the way it was joined: joins its text anew until two symbols are left, whose join would be the piece. */
static int take_apart(const struct kp_model *m, const struct kp_vocab *v, kp_str s,
	struct output *o, struct kp_effort *effort, unsigned depth, struct kp_err *err)
{
	struct kp_spm_work own = { 0 };
	int r = reserve(&own, s.n, err);
	struct joining j = { .m = m, .v = v, .s = s, .sym = own.block, .effort = effort };
	if (r == 0) {
		j.q.p = (struct kp_spm_pair *)(void *)(j.sym + own.cap);
		uint32_t n = split_symbols(&j);
		join(&j, n, 2);
		for (uint32_t i = 0; i != UINT32_MAX && r == 0; i = j.sym[i].next) {
			kp_str part = kp_str_sub(s, j.sym[i].at, j.sym[i].at + j.sym[i].n);
			kp_id id = kp_vocab_find(v, part);
			if (id != KP_BPE_NO_ID && is_unused(v, id) && n > 1 &&
				depth < RESEGMENT_DEPTH) {
				r = take_apart(m, v, part, o, effort, depth + 1, err);
			} else { /* one character that is unused is unknown */
				put(o, part, n > 1 ? id : KP_BPE_NO_ID);
			}
		}
	}
	kp_spm_work_fini(&own);
	return r;
}

static int encode_joined(const struct kp_model *m, const struct kp_vocab *v, kp_str s,
	struct output *o, struct kp_spm_work *w, struct kp_effort *effort, struct kp_err *err)
{
	if (reserve(w, s.n, err)) {
		return -1;
	}
	struct joining j = { .m = m, .v = v, .s = s, .sym = w->block, .effort = effort };
	j.q.p = (struct kp_spm_pair *)(void *)(j.sym + w->cap);
	join(&j, split_symbols(&j), 0);
	for (uint32_t i = 0; i != UINT32_MAX; i = j.sym[i].next) {
		kp_str part = kp_str_sub(s, j.sym[i].at, j.sym[i].at + j.sym[i].n);
		kp_id id = kp_vocab_find(v, part);
		if (id != KP_BPE_NO_ID && is_unused(v, id)) {
			if (take_apart(m, v, part, o, effort, 0, err)) {
				return -1;
			}
		} else {
			put(o, part, id);
		}
	}
	return kp_effort_is_over(effort) ? kp_effort_fail(effort, err) : 0;
}

/* --- Unigram ---------------------------------------------------------------------------------------------------------------- */

struct best {
	float score;
	uint32_t from; /* UINT32_MAX: none */
	kp_id id;      /* KP_BPE_NO_ID: unknown */
};

static void improve(struct best *to, float candidate, uint32_t from, kp_id id)
{
	if (to->from == UINT32_MAX || candidate > to->score) {
		*to = (struct best){ candidate, from, id };
	}
}

static int best_path(const struct kp_model *m, const struct kp_vocab *v, kp_str s,
	const struct kp_spm_symbols *symbols, struct kp_effort *effort, struct best *node,
	struct kp_err *err)
{
	static const float threshold = 100000.0F;
	const uint8_t *p = (const uint8_t *)s.p;
	size_t frontier = 0, len;
	for (size_t i = 0; i <= s.n; i++) {
		node[i] = (struct best){ 0, UINT32_MAX, 0 };
	}
	for (size_t at = 0; at < s.n; at += len) {
		float here = node[at].score;
		if (here < -threshold || here > threshold) {
			for (size_t i = at; i <= frontier; i++) {
				if (i == at || node[i].from != UINT32_MAX) {
					node[i].score -= here;
				}
			}
			here = 0;
			(void)kp_effort_spend(effort, frontier - at);
		}
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
			if (id == UINT32_MAX || is_unused(v, id) ||
				(symbols && !symbols->allows(symbols->ctx, id, at, k + 1))) {
				continue;
			}
			frontier = KP_MAX(frontier, k + 1);
			improve(&node[k + 1], (float)m->score[id] + here, (uint32_t)at, id);
			single = single || k + 1 - at == len;
		}
		if (!kp_effort_spend(effort, k - at)) {
			return kp_effort_fail(effort, err);
		}
		if (!single) {
			frontier = KP_MAX(frontier, at + len);
			improve(&node[at + len], (float)m->unk_score + here, (uint32_t)at,
				KP_BPE_NO_ID);
		}
	}
	return 0;
}

static int encode_path(const struct kp_model *m, const struct kp_vocab *v, kp_str s,
	struct output *o, struct kp_spm_work *w, struct kp_effort *effort, struct kp_err *err)
{
	if (reserve(w, s.n, err)) {
		return -1;
	}
	struct best *node = w->block;
	if (best_path(m, v, s, w->symbols, effort, node, err)) {
		return -1;
	}
	uint32_t end = (uint32_t)s.n, next = UINT32_MAX;
	kp_id id = 0;
	while (end) { /* turn the path: from then on node[i] tells of the piece that begins at i */
		struct best b = node[end];
		node[end].from = next;
		node[end].id = id;
		next = end;
		id = b.id;
		end = b.from;
	}
	node[0].from = next;
	node[0].id = id;
	for (uint32_t at = 0; at < s.n; at = node[at].from) {
		put(o, kp_str_sub(s, at, node[at].from), node[at].id);
	}
	return 0;
}

static int by_score(const void *a, const void *b, void *scores)
{
	const double *s = scores;
	double x = s[*(const uint32_t *)a], y = s[*(const uint32_t *)b];
	return (x < y) - (x > y);
}

uint32_t *kp_spm_ranks(const double *score, size_t n)
{
	uint32_t *order = kp_try_malloc(n * sizeof(*order)),
		 *rank = kp_try_malloc(n * sizeof(*rank));
	if (!order || !rank) {
		kp_mem_free(order);
		kp_mem_free(rank);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		order[i] = i;
	}
	qsort_r(order, n, sizeof(*order), by_score, (void *)(uintptr_t)score);
	for (uint32_t i = 0, r = 0; i < n; i++) {
		r += i && score[order[i]] < score[order[i - 1]];
		rank[order[i]] = r;
	}
	kp_mem_free(order);
	return rank;
}

int kp_spm_encode(const struct kp_model *m, const struct kp_vocab *v, kp_str piece,
	struct kp_spm_work *w, struct kp_effort *effort, struct kp_ids *ids, struct kp_err *err)
{
	struct output o = { .m = m, .v = v, .ids = ids };
	return m->kind == KP_MODEL_SPM_BPE ? encode_joined(m, v, piece, &o, w, effort, err)
					   : encode_path(m, v, piece, &o, w, effort, err);
}
