/* DESIGN: the stages of an encode, in the reference's order: added tokens that are matched raw → normalization of what lies between →
   added tokens that are matched normalized → pieces (pretok_*.c) → ids (cache, whole-piece look-up, merges). Nothing is
   allocated per piece; ids are collected in the scratch and copied to the caller's array in blocks, so the array's maximum is exact. Any
   thread, with a scratch of its own. */
#include "token/span.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define M(n) (UINT64_MAX >> (64 - 8 * (n)))
const uint64_t kp_key_masks[16][2] = { { 0, 0 }, { M(1), 0 }, { M(2), 0 }, { M(3), 0 }, { M(4), 0 },
	{ M(5), 0 }, { M(6), 0 }, { M(7), 0 }, { M(8), 0 }, { M(8), M(1) }, { M(8), M(2) },
	{ M(8), M(3) }, { M(8), M(4) }, { M(8), M(5) }, { M(8), M(6) }, { M(8), M(7) } };
#undef M

void kp_span_flush(struct kp_span *e)
{
	size_t room = e->ids->max - e->ids->n, n = KP_MIN(e->n, room);
	if (!e->failed && n && kp_ids_reserve(e->ids, n)) {
		memcpy(e->ids->p + e->ids->n, e->out, n * sizeof(kp_id));
		e->ids->n += n;
	}
	if (!e->failed && (n < e->n || e->ids->failed)) {
		e->failed = true;
		kp_err_set(e->err, KP_RESOURCE_EXHAUSTED, "encode text: more than `%zu` tokens",
			e->ids->max);
	}
	e->n = 0;
}

static void add_ids(struct kp_span *e, const kp_id *ids, size_t n)
{
	while (n && !e->failed) {
		size_t k = KP_MIN(n, (size_t)KP_OUT);
		if (e->n + k > KP_OUT + KP_OUT_ROOM - 4) {
			kp_span_flush(e);
		}
		memcpy(e->out + e->n, ids, k * sizeof(kp_id));
		e->n += k;
		ids += k;
		n -= k;
		if (e->n > KP_OUT) {
			kp_span_flush(e);
		}
	}
}

/* A piece that is longer than a word of kp_words as one token, where the reference looks whole pieces up; else merging finds it
   just as well. KP_BPE_NO_ID: none. */
static kp_id whole(const struct kp_tokenizer *t, const uint8_t *p, size_t n)
{
	return t->ignore_merges ? kp_vocab_find(&t->vocab, kp_str_n(p, n)) : KP_BPE_NO_ID;
}

void kp_span_miss(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key)
{
	kp_id ids[KP_CACHE_KEY];
	size_t count = 1;
	ids[0] = n <= KP_WORD_MAX ? kp_words_find(&e->t->words, key.lo, (uint32_t)key.hi, n)
				  : whole(e->t, p, n);
	if (ids[0] == KP_BPE_NO_ID) {
		count = kp_bpe_small(&e->t->bpe, p, n, ids);
	}
	struct kp_cache_entry *c = kp_span_bucket(e, key);
	c[1] = c[0];
	c->key = key;
	if (count <= 4) {
		memcpy(c->id, ids, sizeof(c->id));
		c->id[0] = (count ? ids[0] : 0) | (kp_id)count << 24;
	} else { /* the entry only says where to look */
		c->id[0] = (kp_id)KP_CACHE_FAR << 24;
		kp_cache_put_long(e->s, (unsigned)(e->tag >> 60), p, n,
			kp_hash_fold(key.lo, key.hi), ids, count);
	}
	memcpy(e->out + e->n, ids, count * sizeof(kp_id));
	e->n += count;
}

void kp_span_far(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key)
{
	uint64_t hash = kp_hash_fold(key.lo, key.hi);
	size_t count;
	const kp_id *found = kp_cache_get_long(e->s, (unsigned)(e->tag >> 60), p, n, hash, &count);
	if (!found) { /* the log began anew since then */
		kp_id ids[KP_CACHE_KEY];
		count = kp_bpe_small(&e->t->bpe, p, n, ids);
		kp_cache_put_long(e->s, (unsigned)(e->tag >> 60), p, n, hash, ids, count);
		memcpy(e->out + e->n, ids, count * sizeof(kp_id));
	} else {
		memcpy(e->out + e->n, found, count * sizeof(kp_id));
	}
	e->n += count;
}

void kp_span_long(struct kp_span *e, const uint8_t *p, size_t n)
{
	unsigned slot = (unsigned)(e->tag >> 60);
	uint64_t hash = n <= KP_CACHE_LONG ? kp_hash_bytes(p, n) + slot : 0;
	size_t count;
	const kp_id *found = hash ? kp_cache_get_long(e->s, slot, p, n, hash, &count) : NULL;
	if (found) {
		add_ids(e, found, count);
		return;
	}
	kp_id small[KP_BPE_SMALL];
	const kp_id *ids = small;
	small[0] = whole(e->t, p, n);
	if (small[0] != KP_BPE_NO_ID) {
		count = 1;
	} else if (n <= KP_BPE_SMALL) {
		count = kp_bpe_small(&e->t->bpe, p, n, small);
	} else {
		kp_ids_reset(&e->s->work);
		if (kp_bpe_long(&e->t->bpe, p, n, &e->s->work, e->err)) {
			e->failed = true;
			return;
		}
		ids = e->s->work.p;
		count = e->s->work.n;
	}
	add_ids(e, ids, count);
	if (hash) {
		kp_cache_put_long(e->s, slot, p, n, hash, ids, count);
	}
}

/* --- segments ---------------------------------------------------------------------------------------------------- */

/* Text between added tokens, already normalized; `readable`: end of the memory around it. */
static void plain(struct kp_span *e, kp_str s, const char *readable)
{
	if (s.n) {
		e->t->pretok.run(e, (const uint8_t *)s.p, (const uint8_t *)s.p + s.n,
			(const uint8_t *)readable);
	}
}

/* Text between raw added tokens, `at` its place in the whole text. */
static void segment(struct kp_span *e, kp_str s, const char *readable,
	const struct kp_origins *whole_text, size_t at)
{
	struct kp_origins o = *whole_text;
	o.shift = at;
	if (e->t->nfc && !kp_nfc_quick(s)) {
		kp_buf_reset(&e->s->text);
		if (kp_nfc(s, &e->s->nfc, &e->s->text, e->err)) {
			e->failed = true;
			return;
		}
		s = kp_buf_str(&e->s->text);
		readable = s.p + s.n;
		o.change = e->s->nfc.change;
		o.n_change = e->s->nfc.n_change;
	}
	struct kp_match_state state = { 0, 0 };
	struct kp_match m;
	while (!e->failed && kp_matcher_next(&e->t->normalized, &o, s, &state, &m)) {
		plain(e, kp_str_sub(s, state.done, m.from), readable);
		add_ids(e, &m.id, 1);
		state.done = m.to;
	}
	plain(e, kp_str_skip(s, state.done), readable);
}

static int check_text(const struct kp_text *text, struct kp_err *err)
{
	if (text->n_runs && text->runs[text->n_runs - 1].end != text->s.n) {
		return kp_err_set(err, KP_INTERNAL, "encode text: runs end at `%u` of %zu bytes",
			text->runs[text->n_runs - 1].end, text->s.n);
	}
	size_t ok = kp_utf8_valid_prefix(text->s);
	if (ok != text->s.n) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "encode text: invalid UTF-8 at byte `%zu`", ok);
	}
	return 0;
}

int kp_tokenizer_encode(const struct kp_tokenizer *t, struct kp_token_scratch *s,
	const struct kp_text *text, const struct kp_encode_opts *opts, struct kp_ids *ids,
	struct kp_err *err)
{
	if (check_text(text, err)) {
		return -1;
	}
	struct kp_span *e = s->span;
	e->t = t;
	e->s = s;
	e->table = s->table;
	e->bucket_mask = s->n_buckets - 1;
	e->tag = (uint64_t)kp_scratch_slot(s, t->serial) << 60;
	e->ids = ids;
	e->err = err;
	e->failed = false;
	e->n = 0;
	struct kp_origins o = {
		.policy = opts->policy, .runs = text->runs, .n_runs = text->n_runs
	};
	const char *readable = text->s.p + text->s.n;
	if (opts->add_special) {
		add_ids(e, t->prefix, t->n_prefix);
	}
	struct kp_match_state state = { 0, 0 };
	struct kp_match m;
	while (!e->failed && kp_matcher_next(&t->raw, &o, text->s, &state, &m)) {
		if (m.from > state.done) {
			segment(e, kp_str_sub(text->s, state.done, m.from), readable, &o,
				state.done);
		}
		add_ids(e, &m.id, 1);
		state.done = m.to;
	}
	if (!e->failed && state.done < text->s.n) {
		segment(e, kp_str_skip(text->s, state.done), readable, &o, state.done);
	}
	if (opts->add_special) {
		add_ids(e, t->suffix, t->n_suffix);
	}
	kp_span_flush(e);
	kp_scratch_trim(s);
	return e->failed ? -1 : 0;
}
