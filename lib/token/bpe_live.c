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

static size_t collect(
	struct kp_bpe *b, struct kp_vocab *v, const kp_id *char_id, kp_id *sym, struct live *live)
{
	size_t n = 0;
	for (kp_id id = 0; id < v->n; id++) {
		kp_str s = kp_vocab_bytes(v, id);
		if (!(v->tok[id].flags & KP_TOK_WORD) || (char_id && !kp_utf8_ok(s))) {
			continue;
		}
		struct kp_merge *m = &live[n].m;
		size_t k = symbols(b, s, char_id, sym);
		bool self = k == 1 && sym[0] == id;
		if (k > 1 && kp_bpe_last_merge(b, sym, k, m) && m->product == id) {
			live[n++].rank = kp_bpe_rank(b, m->left, m->right);
			self = true;
		}
		/* Bytes that are no valid UTF-8 are never a whole piece of a text. */
		v->tok[id].flags |= self && kp_utf8_ok(s) ? KP_TOK_SELF : 0;
	}
	return n;
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
