/* DESIGN: the pattern of o200k (GPT-4o, gpt-oss), where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and W is [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
     [^\r\n\p{L}\p{N}]?U*W+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?U+W*(?i:'s|…)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
     \s*[\r\n]+|\s+(?!\S)|\s+
   The scalar half follows the backtracking of the first alternative: U* gives back what the first W needs. In ASCII no letter is in both
   classes, so the block half cuts words before a capital behind a small letter; a contraction belongs to the word before it. */
#include "token/block.h"
#include "token/pretok.h"

static inline bool is_upper(unsigned c)
{
	return (c & (KP_UC_L | KP_UC_M)) && !(c & KP_UC_LOWER);
}
static inline bool is_lower(unsigned c)
{
	return (c & (KP_UC_L | KP_UC_M)) && !(c & KP_UC_UPPER);
}

/* End of U*W+ at p, NULL when it does not match; *ret_upper: end of U* before it gave anything back. */
static const uint8_t *word(const uint8_t *p, const uint8_t *end, const uint8_t **ret_upper)
{
	const uint8_t *q = p,
		      *last = NULL; /* last: end of the last character that is in both classes */
	size_t n;
	unsigned c = 0;
	while (q < end && is_upper(c = kp_uc_class(kp_uc_get(q, &n)))) {
		q += n;
		last = is_lower(c) ? q : last;
	}
	*ret_upper = q;
	if (q == end || !is_lower(c)) {
		return last;
	}
	while (q < end && is_lower(kp_uc_class(kp_uc_get(q, &n)))) {
		q += n;
	}
	return q;
}

static size_t with_contraction(const uint8_t *p, const uint8_t *to, const uint8_t *end)
{
	return (size_t)(to - p) + (to < end && *to == '\'' ? kp_contraction(to, end, true) : 0);
}

static size_t piece(const uint8_t *p, const uint8_t *end)
{
	size_t n, m;
	unsigned c = kp_class_at(p, end, &n);
	if (c & KP_UC_N) {
		const uint8_t *q = p + n;
		for (int k = 1; k < 3 && (kp_class_at(q, end, &m) & KP_UC_N); k++) {
			q += m;
		}
		return (size_t)(q - p);
	}
	bool prefix = !(c & KP_UC_L) && !kp_is_newline(p);
	const uint8_t *upper_behind = p, *upper = p,
		      *to = prefix ? word(p + n, end, &upper_behind) : NULL;
	to = to ? to : word(p, end, &upper);
	if (!to && prefix && upper_behind > p + n) {
		to = upper_behind;
	}
	if (!to && upper > p) {
		to = upper;
	}
	if (to) {
		return with_contraction(p, to, end);
	}
	const uint8_t *q = *p == ' ' ? p + 1 : p;
	const uint8_t *r = kp_run_not(q, end, KP_UC_SPACE | KP_UC_L | KP_UC_N);
	if (r == q) {
		return kp_line_piece(p, end);
	}
	while (r < end && (kp_is_newline(r) || *r == '/')) {
		r++;
	}
	return (size_t)(r - p);
}

static inline uint64_t starts(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	struct kp_block b;
	kp_block_load(&b, p, end, KP_ASCII_UPPER | KP_ASCII_SLASH);
	uint64_t letter = b.a.letter, number = b.a.digit, upper = b.a.upper,
		 lower = letter & ~upper;
	/* Line ends and slashes that belong to the other characters before them: the carry runs through them, from the first line end on;
	   one behind a slash in such a run begins nothing new. */
	uint64_t tail = b.a.newline | b.a.slash, behind_other = b.a.newline & (b.other << 1);
	uint64_t absorbed = tail & ((tail ^ (tail + behind_other)) | behind_other);
	uint64_t other = b.other & ~absorbed;
	uint64_t other_begin = other & ~(other << 1) & ~(b.a.blank << 1);
	uint64_t line = b.a.newline & ~absorbed, space = b.a.space & ~absorbed,
		 gap = b.a.space & ~b.a.newline;
	uint64_t m = (letter & ~(letter << 1) & ~((gap | other_begin) << 1)) | other_begin |
		     (upper & (lower << 1));
	m |= space & ~(space << 1);
	m |= gap & ((letter | number | other) >> 1);
	m |= kp_block_indents(line, gap);
	m |= kp_block_threes(number);
	unsigned behind = 0; /* end of the last contraction, where no second one follows */
	for (uint64_t q = b.a.quote & (letter << 1); KP_UNLIKELY(q); q &= q - 1) {
		unsigned at = (unsigned)__builtin_ctzll(q);
		if (at == behind) {
			continue;
		}
		if (at + 3 > b.n && !b.all) {
			m &= (UINT64_C(1) << at) - 1; /* what it is shows behind the block */
			break;
		}
		size_t n = kp_contraction(p + at, p + b.n, true);
		if (n) {
			behind = at + (unsigned)n;
			m &= ~(((UINT64_C(1) << n) - 1) << at);
			m |= at + n < b.n ? UINT64_C(1) << (at + n) : 0;
		}
	}
	*ret_all = b.all;
	return m & b.valid & kp_block_certain(&b, b.a.space);
}

static void run(struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts, piece);
}

const struct kp_pretok kp_pretok_o200k = { "o200k", run, piece };
