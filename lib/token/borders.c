/* DESIGN: see borders.h. 1 MiB in all.

   Blanks in a row (indentation): where every merge of blanks alone comes before every merge over an end of theirs, a row has become what it becomes alone before anything
   can join it. When its last token is more than one blank then, and no merge joins two blanks and something else behind them, nothing ever does. */
#include "token/borders.h"
#include "base/mem.h"

#include <string.h>

static void put(uint64_t *set, size_t bit)
{
	set[bit >> 6] |= UINT64_C(1) << (bit & 63);
}

static uint32_t spelled(const struct kp_borders *c, uint32_t cp)
{
	return c->blank && cp == KP_BORDER_BLANK ? ' ' : cp;
}

static void add(struct kp_borders *c, kp_str s)
{
	uint32_t a = KP_BORDER_NONE, b = KP_BORDER_NONE;
	size_t n = 0, len;
	for (size_t at = 0; at < s.n; at += len, n++) {
		uint32_t next = kp_uc_get((const uint8_t *)s.p + at, &len);
		if (b != KP_BORDER_NONE) {
			uint32_t x = spelled(c, b), y = spelled(c, next);
			put(c->set + KP_BORDER_PAIR, kp_border_pair(b, next));
			if (x < 128 && y < 128) {
				put(c->set, 128 * x + y);
			}
		}
		if (a != KP_BORDER_NONE) {
			put(c->set + KP_BORDER_TRIPLE, kp_border_triple(a, b, next));
		}
		a = b;
		b = next;
	}
	if (n == 2) {
		put(c->set + KP_BORDER_WHOLE, kp_border_pair(a, b));
	}
}

int kp_borders_create(struct kp_borders *c, const struct kp_vocab *v, uint8_t flags, bool blank,
	struct kp_err *err)
{
	*c = (struct kp_borders){ .blank = blank };
	c->set = kp_try_malloc(KP_BORDER_WORDS * sizeof(*c->set));
	if (!c->set) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` tokens", v->n);
	}
	memset(c->set, 0, KP_BORDER_WORDS * sizeof(*c->set));
	for (kp_id id = 0; id < v->n; id++) {
		if (v->tok[id].flags & flags) {
			add(c, kp_vocab_bytes(v, id));
		}
	}
	return 0;
}

void kp_borders_fini(struct kp_borders *c)
{
	kp_free(&c->set);
}

static uint32_t character(
	const struct kp_borders *c, const uint8_t *p, const uint8_t *end, size_t *ret_n)
{
	*ret_n = 0;
	if (p == end) {
		return KP_BORDER_NONE;
	}
	uint32_t cp = kp_uc_get(p, ret_n);
	return c->blank && cp == ' ' ? KP_BORDER_BLANK : cp;
}

size_t kp_borders_next(const struct kp_borders *c, const uint8_t *p, const uint8_t *end)
{
	if (!c->set) {
		return (size_t)(end - p);
	}
	size_t n, m;
	const uint8_t *q = p;
	uint32_t x = KP_BORDER_NONE, a = character(c, q, end, &n);
	q += n;
	uint32_t b = character(c, q, end, &n);
	while (q < end) {
		uint32_t y = character(c, q + n, end, &m);
		if (!kp_borders_joined(c, x, a, b, y)) {
			break;
		}
		q += n;
		x = a;
		a = b;
		b = y;
		n = m;
	}
	return (size_t)(q - p);
}

static bool is_letter(uint8_t c)
{
	return (c | 32) >= 'a' && (c | 32) <= 'z';
}

size_t kp_borders_letters(
	const struct kp_borders *c, const uint8_t *p, const uint8_t *end, const uint8_t **ret_end)
{
	const uint8_t *q = p;
	size_t n;
	*ret_end = p;
	if (end - p < KP_BORDER_LETTERS || !is_letter(p[KP_BORDER_LETTERS - 1])) {
		return 0;
	}
	while (q < end && is_letter(*q)) {
		q++;
	}
	*ret_end = q;
	for (; q < end && q - p >= KP_BORDER_LETTERS; q--) {
		uint32_t b = character(c, q, end, &n);
		if (!kp_borders_joined(c, q[-2], q[-1], b, character(c, q + n, end, &n))) {
			break;
		}
	}
	return q - p >= KP_BORDER_LETTERS ? (size_t)(q - p) : 0;
}

static bool ends_blank(kp_str s)
{
	return s.n >= 3 && kp_str_eq(kp_str_skip(s, s.n - 3), KP_S("▁"));
}

static bool is_blanks(kp_str s)
{
	while (kp_str_starts(s, KP_S("▁"))) {
		s = kp_str_skip(s, 3);
	}
	return s.n == 0;
}

/* Do rows of blanks become what they become alone before anything joins them, and two blanks never anything more? */
static bool blanks_first(const struct kp_vocab *v, const struct kp_merge *m, size_t n)
{
	bool crossed = false;
	for (size_t i = 0; i < n; i++) {
		kp_str l = kp_vocab_bytes(v, m[i].left), r = kp_vocab_bytes(v, m[i].right);
		bool left = ends_blank(l), right = kp_str_starts(r, KP_S("▁"));
		if (left && right && crossed && is_blanks(l) && is_blanks(r)) {
			return false;
		}
		if (left && !right && ends_blank(kp_str_sub(l, 0, l.n - 3))) {
			return false;
		}
		crossed |= left != right;
	}
	return true;
}

void kp_borders_find_blanks(
	struct kp_borders *c, const struct kp_bpe *b, const struct kp_merge *m, size_t n)
{
	kp_id sym[KP_BORDER_BLANKS], out[KP_BORDER_BLANKS];
	uint16_t len[KP_BORDER_BLANKS];
	if (!c->blank || !blanks_first(b->vocab, m, n)) {
		return;
	}
	for (size_t k = 0; k < KP_BORDER_BLANKS; k++) {
		sym[k] = kp_vocab_find(b->vocab, KP_S("▁"));
	}
	for (size_t k = 2; k <= KP_BORDER_BLANKS; k++) {
		size_t count = kp_bpe_small_lengths(b, sym, k, out, len);
		if (len[count - 1] == 1) {
			break;
		}
		c->blanks = (unsigned)k;
	}
}
