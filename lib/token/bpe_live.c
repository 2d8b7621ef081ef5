/* DESIGN: which merges can ever happen, found once per load; the others leave the tables.

   Files list every way to put a token together (Llama 3: 280,147 merges for 127,000 tokens, gpt-oss 446,189 for 200,000), but a merge that happens in any text
   also happens in the text of its two sides alone: until then no merge crossed the outer borders of the two, and what lies between them merges the same
   way with or without a neighbourhood. So each token has one last merge, the one that encoding its own text ends with, and a merge that
   is no token's last one never happens anywhere. The rest is put in order of rank anew; where that is the order of the ids of what they give,
   ranks are these ids, and no table from rank to id is needed. Memory while it runs: 16 bytes per id. */
#include "token/bpe.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <stdlib.h>
#include <string.h>

struct live {
	uint32_t rank;
	struct kp_merge m;
};

static int by_rank(const void *a, const void *b)
{
	const struct live *x = a, *y = b;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool in_order(const struct live *x, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (x[i].rank <= x[i - 1].rank) {
			return false;
		}
	}
	return true;
}

/* The symbols that the text of a token starts from; 0: it cannot. */
static size_t symbols(const struct kp_bpe *b, kp_str s, const kp_id *char_id, kp_id *out)
{
	size_t n = 0, len = 1;
	for (size_t at = 0; at < s.n; at += len) {
		kp_id id = b->byte_id[(uint8_t)s.p[at]];
		if (char_id) {
			uint32_t cp = kp_uc_get((const uint8_t *)s.p + at, &len);
			id = cp < 0x10000 ? char_id[cp]
					  : kp_vocab_find(b->vocab, kp_str_sub(s, at, at + len));
		}
		if (id == b->gap || id == KP_BPE_NO_ID) {
			return 0;
		}
		out[n++] = id;
	}
	return n;
}

enum { BATCH = 128 };

/* Tokens whose texts are merged side by side, and what came of those before. */
struct batch {
	struct kp_bpe *b;
	struct kp_vocab *v;
	struct live *live;
	size_t n_live, n;
	kp_id id[BATCH], sym[BATCH][KP_BPE_FEW], out[BATCH][KP_BPE_FEW];
	uint32_t rank[BATCH][KP_BPE_FEW + 3]; /* of two bytes side by side */
	struct kp_bpe_job job[BATCH];
};

static void is_self(struct kp_vocab *v, kp_id id)
{
	/* Bytes that are no valid UTF-8 are never a whole piece of a text. */
	v->tok[id].flags |= kp_utf8_ok(kp_vocab_bytes(v, id)) ? KP_TOK_SELF : 0;
}

static void keep(struct batch *x, kp_id id, struct kp_merge m, uint32_t rank)
{
	if (m.product == id) {
		x->live[x->n_live++] = (struct live){ rank, m };
		is_self(x->v, id);
	}
}

static void finish(struct batch *x)
{
	kp_bpe_merge_all(x->b, x->job, x->n);
	for (size_t i = 0; i < x->n; i++) {
		if (x->job[i].n == 1) {
			keep(x, x->id[i], x->job[i].last, x->job[i].last_rank);
		}
	}
	x->n = 0;
}

/* A token of k > 1 symbols, which are the bytes at p; p is NULL: they are not. */
static void add(struct batch *x, kp_id id, const kp_id *sym, size_t k, const uint8_t *p)
{
	struct kp_merge m;
	if (k <= KP_BPE_FEW) {
		size_t i = x->n++;
		memcpy(x->sym[i], sym, k * sizeof(*sym));
		x->id[i] = id;
		for (size_t at = 1; p && at < k; at++) {
			x->rank[i][at] = x->b->byte_pair[p[at - 1] << 8 | p[at]];
		}
		x->job[i] = (struct kp_bpe_job){
			.sym = x->sym[i], .rank = p ? x->rank[i] : NULL, .n = k, .ids = x->out[i]
		};
	}
	if (k > KP_BPE_FEW || x->n == BATCH) {
		finish(x);
	}
	if (k > KP_BPE_FEW && kp_bpe_last_merge(x->b, sym, k, &m)) {
		keep(x, id, m, kp_bpe_rank(x->b, m.left, m.right));
	}
}

static size_t collect(
	struct kp_bpe *b, struct kp_vocab *v, const kp_id *char_id, kp_id *sym, struct live *live)
{
	struct batch x = { .b = b, .v = v, .live = live };
	for (kp_id id = 0; id < v->n; id++) {
		kp_str s = kp_vocab_bytes(v, id);
		if (!(v->tok[id].flags & KP_TOK_WORD) || (char_id && !kp_utf8_ok(s))) {
			continue;
		}
		size_t k = symbols(b, s, char_id, sym);
		if (k > 1) {
			add(&x, id, sym, k, char_id ? NULL : (const uint8_t *)s.p);
		} else if (k == 1 && sym[0] == id) {
			is_self(v, id);
		}
	}
	finish(&x);
	return x.n_live;
}

static bool in_id_order(const struct kp_merge *m, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (m[i].product <= m[i - 1].product) {
			return false;
		}
	}
	return true;
}

int kp_bpe_drop_dead(struct kp_bpe *b, struct kp_vocab *v, const kp_id *char_id,
	struct kp_merge **ret, struct kp_err *err)
{
	size_t longest = 0;
	for (kp_id id = 0; id < v->n; id++) {
		longest = KP_MAX(longest, (size_t)v->tok[id].n);
	}
	struct live *live = kp_try_malloc((v->n + 1) * sizeof(*live));
	kp_id *sym = kp_try_malloc((longest + 1) * sizeof(*sym));
	struct kp_merge *m = kp_try_malloc((v->n + 1) * sizeof(*m));
	int r = -1;
	if (live && sym && m) {
		size_t n = collect(b, v, char_id, sym, live);
		if (!in_order(live, n)) {
			qsort(live, n, sizeof(*live), by_rank);
		}
		for (size_t i = 0; i < n; i++) {
			m[i] = live[i].m;
		}
		r = kp_bpe_rebuild(b, m, n, b->by_product || in_id_order(m, n), err);
	} else {
		(void)kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%u` merges", b->n_merges);
	}
	kp_mem_free(live);
	kp_mem_free(sym);
	if (r || !ret) {
		kp_mem_free(m);
	} else {
		*ret = m;
	}
	return r;
}
