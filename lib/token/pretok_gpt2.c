/* DESIGN: GPT-2's pattern (Hugging Face `ByteLevel` with use_regex, llama.cpp's default):
     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
   alone, and behind `Digits` with individual_digits (llama.cpp `smollm`), where each number stands alone and white space before it
   is at the end of its own split. The scalar half is the pattern read left to right; the block half says the same as
   conditions on neighbouring bytes (tests compare the two). */
#include "token/ascii.h"
#include "token/pretok.h"

/* `stop`: the class that ends a split: KP_UC_DIGIT behind Digits, 0 otherwise. */
static inline size_t piece(const uint8_t *p, const uint8_t *end, unsigned stop)
{
	size_t n, m = 0;
	unsigned c = kp_class_at(p, end, &n);
	if (c & stop) {
		return n;
	}
	if (*p == '\'') {
		size_t k = kp_contraction(p, end, false);
		if (k) {
			return k;
		}
	}
	const uint8_t *q = p;
	unsigned d = c;
	if (*p == ' ') {
		q = p + 1;
		d = kp_class_at(q, end, &m);
		if (m == 0 || (d & stop)) {
			return 1;
		}
	}
	if (d & KP_UC_L) {
		return (size_t)(kp_run(q, end, KP_UC_L) - p);
	}
	if (d & KP_UC_N) {
		const uint8_t *r = q; /* numbers that Digits does not know, or all without it */
		while (r < end && (d = kp_class_at(r, end, &m), (d & KP_UC_N) && !(d & stop))) {
			r += m;
		}
		return (size_t)(r - p);
	}
	if (!(d & KP_UC_SPACE)) {
		return (size_t)(kp_run_not(q, end, KP_UC_SPACE | KP_UC_L | KP_UC_N | stop) - p);
	}
	if (stop) { /* the run ends its split when a number follows */
		const uint8_t *r = kp_run(p, end, KP_UC_SPACE);
		if (r < end && (kp_class_at(r, end, &m) & stop)) {
			return (size_t)(r - p);
		}
	}
	return kp_space_piece(p, end);
}

static inline uint64_t starts(const uint8_t *p, const uint8_t *end, bool *ret_all, bool digits)
{
	struct kp_block b;
	kp_block_load(&b, p, end, false, false);
	uint64_t letter = b.a.letter, number = b.a.digit, space = b.a.space, other = b.other;
	uint64_t behind_blank = b.a.blank << 1;
	uint64_t other_begin = other & ~(other << 1) & ~behind_blank;
	/* Begins of runs that no blank joins, then white space: a run's begin, and its last character before a word. */
	uint64_t m =
		(letter & ~(letter << 1) & ~behind_blank) | other_begin | (space & ~(space << 1));
	uint64_t word = letter | other;
	if (digits) {
		m |= number;
	} else {
		m |= number & ~(number << 1) & ~behind_blank;
		word |= number;
	}
	m |= space & (word >> 1);
	/* A contraction: what follows it begins anew. */
	for (uint64_t q = b.a.quote & other_begin & (letter >> 1); KP_UNLIKELY(q); q &= q - 1) {
		unsigned at = (unsigned)__builtin_ctzll(q);
		size_t n = kp_contraction(p + at, p + b.n, false);
		bool cut = at + 2 >= b.n && !b.all; /* its last letter may come behind the block */
		m &= n || cut ? ~(UINT64_C(2) << at) : UINT64_MAX;
		m |= n && at + n < b.n ? UINT64_C(1) << (at + n) : 0;
	}
	*ret_all = b.all;
	return m & b.valid & kp_block_certain(&b, space);
}

static size_t piece_gpt2(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, 0);
}
static size_t piece_digits(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, KP_UC_DIGIT);
}
static inline uint64_t starts_gpt2(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	return starts(p, end, ret_all, false);
}
static inline uint64_t starts_digits(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	return starts(p, end, ret_all, true);
}

static void run_gpt2(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_gpt2, piece_gpt2);
}
static void run_digits(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_digits, piece_digits);
}

const struct kp_pretok kp_pretok_gpt2 = { "gpt2", run_gpt2 };
const struct kp_pretok kp_pretok_gpt2_digits = { "gpt2-digits", run_digits };
