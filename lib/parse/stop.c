/* DESIGN: Knuth-Morris-Pratt per string, at most 16 of them, so one pass and a few compares a byte;
   each keeps how much of itself the end of the text matches. What must be held is the largest of
   these. A request with stop strings pays this, others only a NULL check. */
#include "parse/stop.h"

struct pattern {
	kp_str s;
	const uint16_t *fail; /* fail[i]: longest proper prefix of s that ends s[0..i] */
};
struct kp_stop_set {
	size_t n;
	struct pattern p[KP_STOP_MAX];
};

static const uint16_t *failure_table(kp_str s, struct kp_arena *a)
{
	uint16_t *fail = kp_arena_calloc(a, s.n, sizeof(*fail));
	for (size_t i = 1, k = 0; fail && i < s.n; i++) {
		while (k && s.p[i] != s.p[k]) {
			k = fail[k - 1];
		}
		k += s.p[i] == s.p[k];
		fail[i] = (uint16_t)k;
	}
	return fail;
}

int kp_stop_set_create(struct kp_arena *a, const kp_str *strings, size_t n,
	const struct kp_stop_set **ret, struct kp_err *err)
{
	if (n > KP_STOP_MAX) {
		return kp_err_param(
			err, "stop", "`stop`: at most %d strings, got %zu", KP_STOP_MAX, n);
	}
	struct kp_stop_set *set = kp_arena_new(a, struct kp_stop_set);
	for (size_t i = 0; i < n; i++) {
		if (strings[i].n == 0) {
			return kp_err_param(err, "stop", "`stop`: a stop string must not be empty");
		}
		if (strings[i].n > KP_STOP_MAX_BYTES) {
			return kp_err_param(err, "stop",
				"`stop`: a stop string has at most %d bytes, got %zu",
				KP_STOP_MAX_BYTES, strings[i].n);
		}
		struct pattern *p = &set->p[set->n];
		if (kp_arena_dup(a, strings[i], &p->s, err)) {
			return -1;
		}
		p->fail = failure_table(p->s, a);
		if (!p->fail) {
			return kp_arena_full(err, "stop strings");
		}
		set->n++;
	}
	*ret = set;
	return 0;
}

void kp_stop_init(struct kp_stop *s, const struct kp_stop_set *set)
{
	*s = (struct kp_stop){ .set = set && set->n ? set : NULL, .matched = -1 };
	kp_buf_init(&s->held, KP_STOP_MAX_BYTES);
}

void kp_stop_fini(struct kp_stop *s)
{
	kp_buf_fini(&s->held);
}

/* One byte: the pattern that is complete now (longest), or -1; *ret_hold: bytes at the end that may
 * still become a match. */
static int step(struct kp_stop *s, char c, size_t *ret_hold)
{
	const struct kp_stop_set *set = s->set;
	int hit = -1;
	size_t hold = 0;
	for (size_t i = 0; i < set->n; i++) {
		const struct pattern *p = &set->p[i];
		size_t k = s->at[i];
		while (k && p->s.p[k] != c) {
			k = p->fail[k - 1];
		}
		k += p->s.p[k] == c;
		if (k == p->s.n && (hit < 0 || p->s.n > set->p[hit].s.n)) {
			hit = (int)i;
		}
		s->at[i] = (uint16_t)k;
		hold = KP_MAX(hold, k);
	}
	*ret_hold = hold;
	return hit;
}

bool kp_stop_feed(struct kp_stop *s, kp_str text, bool include, struct kp_buf *out)
{
	if (!s->set) {
		kp_buf_add(out, text);
		return false;
	}
	if (s->matched >= 0) {
		return true;
	}
	size_t shown = 0; /* bytes of `text` that have left */
	for (size_t i = 0; i < text.n; i++) {
		size_t hold;
		int hit = step(s, text.p[i], &hold);
		/* Held now: s->held followed by text[shown..i]. Keep the last `keep` bytes of it.
		 */
		size_t keep = hit >= 0 ? s->set->p[hit].s.n : hold;
		size_t have = s->held.n + (i + 1 - shown);
		size_t go = have > keep ? have - keep : 0, from_held = KP_MIN(go, s->held.n);
		if (from_held) {
			kp_buf_add(out, kp_str_sub(kp_buf_str(&s->held), 0, from_held));
			kp_buf_consume(&s->held, from_held);
		}
		if (go > from_held) {
			kp_buf_add(out, kp_str_sub(text, shown, shown + (go - from_held)));
			shown += go - from_held;
		}
		if (hit >= 0) {
			s->matched = hit;
			kp_buf_reset(&s->held);
			if (include) {
				kp_buf_add(out, s->set->p[hit].s);
			}
			return true;
		}
	}
	kp_buf_add(&s->held, kp_str_skip(text, shown));
	return false;
}

void kp_stop_finish(struct kp_stop *s, struct kp_buf *out)
{
	if (s->matched < 0) {
		kp_buf_add(out, kp_buf_str(&s->held));
	}
	kp_buf_reset(&s->held);
	memset(s->at, 0, sizeof(s->at));
}

kp_str kp_stop_text(const struct kp_stop_set *set, int index)
{
	return index >= 0 && (size_t)index < set->n ? set->p[index].s : KP_STR_NULL;
}
