/* DESIGN: see borders.h. 0.7 MiB, and 4 KiB for each table: Gemma 3 has 238.

   Blanks in a row (indentation): where every merge of blanks alone comes before every merge over an end of theirs, a row has become what it becomes alone before anything
   can join it. When its last token is more than one blank then, and no merge joins two blanks and something else behind them, nothing ever does. */
#include "token/borders.h"
#include "base/mem.h"
#include "token/ascii.h"
#include "token/hash.h"

#include <string.h>

static void put(uint64_t *set, size_t bit, uint64_t bits)
{
	set[bit >> 6] |= bits << (bit & 63);
}

/* The row of a pair of characters; NULL: the pair is in the set. Tables are numbered as they are wanted. */
static struct kp_border_row *find_row(struct kp_borders *c, uint32_t a, uint32_t b)
{
	if ((a | b) >= KP_BORDER_DIRECT) {
		return NULL;
	}
	uint8_t *block = &c->index[a >> 7 << 7 | b >> 7];
	if (*block == KP_BORDER_EMPTY) {
		*block = c->n_blocks < KP_BORDER_BLOCKS ? (uint8_t)c->n_blocks++ : KP_BORDER_IN_SET;
	}
	return *block == KP_BORDER_IN_SET ? NULL : &c->row[(size_t)*block << 7 | (a & 127)];
}

static void put_pair(struct kp_borders *c, uint32_t a, uint32_t b, bool is_token)
{
	struct kp_border_row *row = find_row(c, a, b);
	uint64_t bit = UINT64_C(1) << (b & 63);
	if (row) {
		row->inside[b >> 6 & 1] |= bit;
		row->token[b >> 6 & 1] |= is_token ? bit : 0;
	} else {
		put(c->set, kp_border_pair(a, b), is_token ? KP_PAIR_TOKEN : KP_PAIR_INSIDE);
	}
}

/* How text may have a character: "▁" also as a blank. */
static unsigned spellings(const struct kp_borders *c, uint32_t cp, uint32_t out[2])
{
	out[0] = cp;
	out[1] = ' ';
	return c->blank && cp == KP_BORDER_BLANK ? 2 : 1;
}

static void add_pair(struct kp_borders *c, uint32_t a, uint32_t b, bool is_token)
{
	uint32_t x[2], y[2];
	unsigned n = spellings(c, a, x), m = spellings(c, b, y);
	for (unsigned i = 0; i < n * m; i++) {
		put_pair(c, x[i / m], y[i % m], is_token);
	}
}

static void add_triple(struct kp_borders *c, uint32_t a, uint32_t b, uint32_t d)
{
	uint32_t x[2], y[2], z[2];
	unsigned n = spellings(c, a, x), m = spellings(c, b, y), k = spellings(c, d, z);
	for (unsigned i = 0; i < n * m * k; i++) {
		put(c->set + KP_BORDER_TRIPLE,
			kp_border_triple(x[i / k / m], y[i / k % m], z[i % k]), 1);
	}
}

static void add(struct kp_borders *c, kp_str s)
{
	uint32_t a = KP_BORDER_NONE, b = KP_BORDER_NONE;
	size_t len;
	for (size_t at = 0; at < s.n; at += len) {
		uint32_t next = kp_uc_get((const uint8_t *)s.p + at, &len);
		if (b != KP_BORDER_NONE) {
			add_pair(c, b, next, a == KP_BORDER_NONE && at + len == s.n);
		}
		if (a != KP_BORDER_NONE) {
			add_triple(c, a, b, next);
		}
		a = b;
		b = next;
	}
}

static void *zeros(size_t n)
{
	void *p = kp_try_malloc(n);
	if (p) {
		memset(p, 0, n);
	}
	return p;
}

int kp_borders_create(struct kp_borders *c, const struct kp_vocab *v, uint8_t flags, bool blank,
	struct kp_err *err)
{
	const size_t table = 128 * sizeof(*c->row);
	*c = (struct kp_borders){ .blank = blank, .n_blocks = KP_BORDER_ASCII };
	c->set = zeros(KP_BORDER_WORDS * sizeof(*c->set));
	c->index = zeros(KP_BORDER_INDEX * sizeof(*c->index));
	c->row = zeros(KP_BORDER_BLOCKS * table);
	if (c->index && c->row) {
		(void)find_row(c, 0, 0);
	}
	for (kp_id id = 0; c->set && c->index && c->row && id < v->n; id++) {
		if (v->tok[id].flags & flags) {
			add(c, kp_vocab_bytes(v, id));
		}
	}
	void *rows = c->row ? kp_try_realloc(c->row, c->n_blocks * table) : NULL;
	c->row = rows ? rows : c->row;
	if (!c->set || !c->index || !rows) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` tokens", v->n);
	}
	return 0;
}

void kp_borders_fini(struct kp_borders *c)
{
	kp_free(&c->set);
	kp_free(&c->index);
	kp_free(&c->row);
}

/* What the characters around a and b decide, those at p and before a (KP_BORDER_NONE: none); rare, and out of the loop's way. */
static __attribute__((noinline)) bool joined_around(const struct kp_borders *c, uint32_t x,
	uint32_t a, uint32_t b, const uint8_t *p, const uint8_t *end)
{
	size_t n;
	return kp_borders_joined(
		c, KP_PAIR_INSIDE, x, a, b, p < end ? kp_uc_get(p, &n) : KP_BORDER_NONE);
}

/* May something join a and b? x: the character before them, or none; p: behind them. */
static inline bool joined(const struct kp_borders *c, uint32_t x, uint32_t a, uint32_t b,
	const uint8_t *p, const uint8_t *end)
{
	unsigned pair = kp_borders_pair(c, a, b);
	return pair == KP_PAIR_TOKEN || (pair && joined_around(c, x, a, b, p, end));
}

size_t kp_borders_next(const struct kp_borders *c, const uint8_t *p, const uint8_t *end)
{
	if (!c->set) {
		return (size_t)(end - p);
	}
	size_t n;
	uint32_t x = KP_BORDER_NONE, a = kp_uc_get(p, &n), b;
	const uint8_t *q = p + n;
	for (; q < end; q += n, x = a, a = b) {
		b = kp_uc_get(q, &n);
		if (!joined(c, x, a, b, q + n, end)) {
			break;
		}
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
	while (end - q >= 8 && kp_small_letters(kp_load64(q))) {
		q += 8;
	}
	while (q < end && is_letter(*q)) {
		q++;
	}
	*ret_end = q;
	for (; q < end && q - p >= KP_BORDER_LETTERS; q--) {
		uint32_t b = kp_uc_get(q, &n);
		if (!joined(c, q[-2], q[-1], b, q + n, end)) {
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
