/* DESIGN: DeepSeek V3's three splits in sequence, each inside the pieces of the one before:
     \p{N}{1,3}
     [一-龥぀-ゟ゠-ヿ]+
     [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
   A number or one of those ideographs ends the text for the third one. What that does not match (control characters mostly) is a piece up to where
   it matches again. The block half stops at control characters, as at anything that is not ASCII. */
#include "token/block.h"
#include "token/pretok.h"

static inline bool is_east_asian(uint32_t cp)
{
	return (cp >= 0x4e00 && cp <= 0x9fa5) || (cp >= 0x3040 && cp <= 0x30ff);
}

/* Class of the character at p for the third split: 0 and *ret_n = 0 where it ends. A control character has no bit. */
static unsigned class_at(const uint8_t *p, const uint8_t *end, size_t *ret_n)
{
	if (p < end) {
		uint32_t cp = kp_uc_get(p, ret_n);
		unsigned c = kp_uc_class(cp);
		if (!(c & KP_UC_N) && !is_east_asian(cp)) {
			return c;
		}
	}
	*ret_n = 0;
	return 0;
}

static const uint8_t *run_of(const uint8_t *p, const uint8_t *end, unsigned any)
{
	size_t n;
	while (class_at(p, end, &n) & any) {
		p += n;
	}
	return p;
}

static inline bool is_ascii_letter(uint8_t c)
{
	return (uint8_t)((c | 0x20) - 'a') < 26;
}

/* What the third split leaves unmatched at p. */
static size_t unmatched(const uint8_t *p, const uint8_t *end, size_t n)
{
	const uint8_t *q = p + n;
	size_t m;
	for (;;) {
		unsigned c = class_at(q, end, &n);
		if (n == 0 || (c & (KP_UC_L | KP_UC_M | KP_UC_PS | KP_UC_SPACE)) ||
			(class_at(q + n, end, &m) & (KP_UC_L | KP_UC_M))) {
			return (size_t)(q - p);
		}
		q += n;
	}
}

/* At white space, whose run ends the split when a number or an ideograph follows. */
static size_t space_piece(const uint8_t *p, const uint8_t *end)
{
	size_t n;
	const uint8_t *r = run_of(p, end, KP_UC_SPACE);
	(void)class_at(r, end, &n);
	return kp_line_piece(p, n == 0 ? r : end);
}

static size_t piece(const uint8_t *p, const uint8_t *end)
{
	size_t n, m;
	unsigned c = class_at(p, end, &n);
	if (n == 0) {
		uint32_t cp = kp_uc_get(p, &n);
		const uint8_t *q = p + n;
		if (is_east_asian(cp)) {
			while (q < end && is_east_asian(kp_uc_get(q, &n))) {
				q += n;
			}
			return (size_t)(q - p);
		}
		for (int k = 1; k < 3 && (kp_class_at(q, end, &m) & KP_UC_N); k++) {
			q += m;
		}
		return (size_t)(q - p);
	}
	if (*p < 0x80 && (c & KP_UC_PS) && p + 1 < end && is_ascii_letter(p[1])) {
		const uint8_t *q = p + 2;
		while (q < end && is_ascii_letter(*q)) {
			q++;
		}
		return (size_t)(q - p);
	}
	if (c & (KP_UC_L | KP_UC_M)) {
		return (size_t)(run_of(p + n, end, KP_UC_L | KP_UC_M) - p);
	}
	if (!(c & KP_UC_PS) && !kp_is_newline(p) &&
		(class_at(p + n, end, &m) & (KP_UC_L | KP_UC_M))) {
		return (size_t)(run_of(p + n + m, end, KP_UC_L | KP_UC_M) - p);
	}
	const uint8_t *q = *p == ' ' ? p + 1 : p, *r = run_of(q, end, KP_UC_PS);
	if (r == q) {
		return c & KP_UC_SPACE ? space_piece(p, end) : unmatched(p, end, n);
	}
	while (r < end && kp_is_newline(r)) {
		r++;
	}
	return (size_t)(r - p);
}

static inline uint64_t starts(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	struct kp_block b;
	kp_block_load(&b, p, end, KP_ASCII_CONTROL);
	uint64_t letter = b.a.letter, number = b.a.digit, other = b.other;
	uint64_t other_begin = other & ~(other << 1) & ~(b.a.blank << 1);
	uint64_t behind_other = b.a.newline & (other << 1);
	uint64_t absorbed = b.a.newline & (b.a.newline ^ (b.a.newline + behind_other));
	uint64_t line = b.a.newline & ~absorbed, space = b.a.space & ~absorbed,
		 gap = b.a.space & ~b.a.newline;
	uint64_t m = (letter & ~(letter << 1) & ~((gap | other_begin) << 1)) | other_begin;
	m |= space & ~(space << 1);
	m |= gap &
	     ((letter | other) >> 1); /* before a number the split ends, and with it the run */
	m |= kp_block_indents(line, gap);
	m |= kp_block_threes(number);
	*ret_all = b.all;
	return m & b.valid & kp_block_certain(&b, b.a.space);
}

static void run(struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts, piece);
}

const struct kp_pretok kp_pretok_deepseek = { "deepseek", run, piece };
