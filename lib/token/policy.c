/* DESIGN: one byte per added token says where it may be matched. An added token that is no control token is matched wherever the
   reference matches it. A control token needs every byte of the match to be of an origin that may write it, so a
   match half of which a client typed is none. Immutable after creation. */
#include "token/tokenizer.h"
#include "base/mem.h"
#include "token/hash.h"
#include "token/internal.h"
#include "token/norm.h"

enum { ANYWHERE = 0, TRUSTED_ONLY, TRUSTED_OR_ASSISTANT };

struct kp_token_policy {
	uint8_t *where; /* by index of the added token; NULL: anywhere */
	uint64_t digest;
	bool rules_rows; /* some of the tokenizer's rows are not for anybody to write */
};

static int mark(const struct kp_tokenizer *t, struct kp_token_policy *p, const kp_id *ids, size_t n,
	uint8_t where, struct kp_err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] >= t->vocab.n || !(t->vocab.tok[ids[i]].flags & KP_TOK_KNOWN)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"build token policy: no token has id `%u`", ids[i]);
		}
		size_t k = kp_added_index(t, ids[i]);
		if (k != SIZE_MAX) {
			p->where[k] =
				where; /* an ordinary token is never matched as a control token */
			p->rules_rows |= kp_rows_has(t, t->added[k].text);
		}
	}
	return 0;
}

int kp_token_policy_create(const struct kp_tokenizer *t, enum kp_text_policy policy,
	const kp_id *control, size_t n_control, const kp_id *markers, size_t n_markers,
	struct kp_token_policy **ret, struct kp_err *err)
{
	KP_AUTO(token_policy) struct kp_token_policy *p = kp_new(struct kp_token_policy);
	if (policy != KP_POLICY_TRUSTED) {
		p->where = kp_xcalloc(t->n_added + 1, 1);
		for (size_t i = 0; i < t->n_added; i++) {
			p->where[i] =
				t->added[i].flags & KP_ADDED_SPECIAL ? TRUSTED_ONLY : ANYWHERE;
		}
		uint8_t marker = policy == KP_POLICY_MARKERS ? TRUSTED_OR_ASSISTANT : TRUSTED_ONLY;
		if (mark(t, p, control, n_control, TRUSTED_ONLY, err) ||
			mark(t, p, markers, n_markers, marker, err)) {
			return -1;
		}
		p->digest = kp_hash_bytes(p->where, t->n_added + 1);
	}
	*ret = kp_steal(p);
	return 0;
}

bool kp_token_policy_guard(struct kp_token_policy *p, const struct kp_tokenizer *t, kp_id id)
{
	size_t k = kp_added_index(t, id);
	if (k == SIZE_MAX) {
		return false;
	}
	if (!p->where) {
		p->where = kp_xcalloc(t->n_added + 1, 1);
	}
	p->where[k] = TRUSTED_ONLY;
	p->rules_rows |= kp_rows_has(t, t->added[k].text);
	p->digest = kp_hash_bytes(p->where, t->n_added + 1);
	return true;
}

void kp_token_policy_destroy(struct kp_token_policy *p)
{
	if (p) {
		kp_free(&p->where);
		kp_free(&p);
	}
}

uint64_t kp_token_policy_digest(const struct kp_token_policy *p)
{
	return p ? p->digest : 0;
}

bool kp_policy_rules_rows(const struct kp_token_policy *p)
{
	return p && p->rules_rows;
}

/* Place in the text before a step; inside a changed stretch its begin (end: its end). */
static size_t step_back(const struct kp_norm_map *m, size_t at, bool end)
{
	size_t lo = 0, hi = m->n;
	while (lo < hi) { /* first change that ends after `at` (end: at or after it) */
		size_t mid = (lo + hi) / 2;
		size_t stop = m->p[mid].at + m->p[mid].n;
		if (end ? stop < at : stop <= at) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	if (lo < m->n && (end ? m->p[lo].at < at : m->p[lo].at <= at)) {
		return m->p[lo].raw_at + (end ? m->p[lo].raw_n : 0);
	}
	if (lo == 0) {
		return at;
	}
	const struct kp_nfc_change *c = &m->p[lo - 1];
	return c->raw_at + c->raw_n + (at - (c->at + c->n));
}

static size_t to_raw(const struct kp_origins *o, size_t at, bool end)
{
	for (size_t i = o->n_maps; i-- > 0;) {
		at = step_back(&o->map[i], at, end);
	}
	return o->shift + at;
}

bool kp_policy_allows(const struct kp_origins *o, size_t index, size_t from, size_t to)
{
	if (!o->policy || !o->policy->where || o->policy->where[index] == ANYWHERE ||
		o->n_runs == 0) {
		return true;
	}
	from = to_raw(o, from, false);
	to = to_raw(o, to, true);
	size_t lo = 0, hi = o->n_runs;
	while (lo < hi) { /* the run that holds `from` */
		size_t mid = (lo + hi) / 2;
		if (o->runs[mid].end <= from) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	for (; lo < o->n_runs; lo++) {
		if (lo && o->runs[lo].end == o->runs[lo - 1].end) {
			continue; /* no bytes */
		}
		uint32_t origin = o->runs[lo].origin;
		bool marker = origin == KP_ORIGIN_ASSISTANT &&
			      o->policy->where[index] == TRUSTED_OR_ASSISTANT;
		if (origin != KP_ORIGIN_TRUSTED && !marker) {
			return false;
		}
		if (o->runs[lo].end >= to) {
			return true;
		}
	}
	return false; /* runs must cover the text */
}
