/* DESIGN: the pattern of cl100k, Llama 3 (numbers of up to three digits) and Qwen 2 and 3 (one digit):
     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
   and of Qwen 3.5, where marks belong to words: [\p{L}\p{M}]+ and [^\s\p{L}\p{M}\p{N}]+.
   The scalar half is the pattern read left to right. The block half says the same as conditions on neighbouring bytes:
   - a word takes in the character before it when that is white space other than a line end (the last of a run is always left for
     it), or a lone other character without a blank before it;
   - line ends right behind other characters belong to them; what follows begins anew;
   - white space with a line end is one piece up to its last line end, then all but the last character, then the last one. */
#include "token/block.h"
#include "token/pretok.h"

/* letter: KP_UC_L, with KP_UC_M where marks belong to words. */
static inline size_t piece(const uint8_t *p, const uint8_t *end, unsigned digits, unsigned letter)
{
	size_t n, m;
	if (*p == '\'') {
		size_t k = kp_contraction(p, end, true);
		if (k) {
			return k;
		}
	}
	unsigned c = kp_class_at(p, end, &n);
	if (c & letter) {
		return (size_t)(kp_run(p + n, end, letter) - p);
	}
	if (c & KP_UC_N) {
		const uint8_t *q = p + n;
		for (unsigned k = 1; k < digits && (kp_class_at(q, end, &m) & KP_UC_N); k++) {
			q += m;
		}
		return (size_t)(q - p);
	}
	if (!kp_is_newline(p) && (kp_class_at(p + n, end, &m) & letter)) {
		return (size_t)(kp_run(p + n + m, end, letter) - p);
	}
	const uint8_t *q = *p == ' ' ? p + 1 : p;
	const uint8_t *r = kp_run_not(q, end, KP_UC_SPACE | KP_UC_N | letter);
	if (r == q) {
		return kp_line_piece(p, end);
	}
	while (r < end && kp_is_newline(r)) {
		r++;
	}
	return (size_t)(r - p);
}

static inline uint64_t starts(const uint8_t *p, const uint8_t *end, bool *ret_all, unsigned digits)
{
	struct kp_block b;
	kp_block_load(&b, p, end, 0);
	uint64_t letter = b.a.letter, number = b.a.digit, other = b.other;
	uint64_t other_begin = other & ~(other << 1) & ~(b.a.blank << 1);
	/* Line ends that belong to the other characters before them: the carry runs through them. */
	uint64_t behind_other = b.a.newline & (other << 1);
	uint64_t absorbed = b.a.newline & (b.a.newline ^ (b.a.newline + behind_other));
	uint64_t line = b.a.newline & ~absorbed, space = b.a.space & ~absorbed,
		 gap = b.a.space & ~b.a.newline;
	uint64_t prefix = (gap | other_begin) << 1;
	uint64_t m = (letter & ~(letter << 1) & ~prefix) | other_begin;
	m |= space & ~(space << 1);
	m |= gap & ((letter | number | other) >> 1);
	m |= kp_block_indents(line, gap);
	m |= digits == 1 ? number : kp_block_threes(number);
	for (uint64_t q = b.a.quote & other_begin & (letter >> 1); KP_UNLIKELY(q); q &= q - 1) {
		unsigned at = (unsigned)__builtin_ctzll(q);
		size_t n = kp_contraction(p + at, p + b.n, true);
		m |= n && at + n < b.n ? UINT64_C(1) << (at + n) : 0;
	}
	*ret_all = b.all;
	return m & b.valid & kp_block_certain(&b, b.a.space);
}

static size_t piece_1(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, 1, KP_UC_L);
}
static size_t piece_3(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, 3, KP_UC_L);
}
static size_t piece_marks(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, 1, KP_UC_L | KP_UC_M);
}
static inline uint64_t starts_1(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	return starts(p, end, ret_all, 1);
}
static inline uint64_t starts_3(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	return starts(p, end, ret_all, 3);
}

static void run_1(struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_1, piece_1);
}
static void run_3(struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_3, piece_3);
}

static void run_marks(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_1, piece_marks);
}

const struct kp_pretok kp_pretok_cl100k_1 = { "cl100k-1", run_1, piece_1 };
const struct kp_pretok kp_pretok_cl100k_3 = { "cl100k-3", run_3, piece_3 };
const struct kp_pretok kp_pretok_cl100k_marks = { "cl100k-marks", run_marks, piece_marks };
