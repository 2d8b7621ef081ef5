/* DESIGN: GPT-2's pattern (Hugging Face `ByteLevel` with use_regex, llama.cpp's default):
     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
   alone, and behind `Digits` with individual_digits (llama.cpp `smollm`, whose Unicode is one version older), where each number stands alone and white space before it
   is at the end of its own split. The scalar half is the pattern read left to right; the block half says the same as
   conditions on neighbouring bytes (tests compare the two). */
#include "token/block.h"
#include "token/pretok.h"

/* How characters are classed: KP_UC_* as they are, or as llama.cpp's older tables have them. */
enum variant { PLAIN, DIGITS, LLAMA_DIGITS };

static inline unsigned class_at(const uint8_t *p, const uint8_t *end, size_t *ret_n, enum variant v)
{
	unsigned c = kp_class_at(p, end, ret_n);
	return v == LLAMA_DIGITS && (c & KP_UC_NEW) ? 0 : c;
}

/* End of the run whose class has a bit of `any` (or, inverted, none of it). */
static inline const uint8_t *run_of(
	const uint8_t *p, const uint8_t *end, unsigned any, bool invert, enum variant v)
{
	size_t n;
	while (p < end && !(class_at(p, end, &n, v) & any) == invert) {
		p += n;
	}
	return p;
}

static inline size_t piece(const uint8_t *p, const uint8_t *end, enum variant v)
{
	/* The class that ends a split. */
	unsigned stop = v == PLAIN ? 0 : v == DIGITS ? KP_UC_DIGIT : KP_UC_N;
	size_t n, m = 0;
	unsigned c = class_at(p, end, &n, v);
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
		d = class_at(q, end, &m, v);
		if (m == 0 || (d & stop)) {
			return 1;
		}
	}
	if (d & KP_UC_L) {
		return (size_t)(run_of(q, end, KP_UC_L, false, v) - p);
	}
	if (d & KP_UC_N) { /* never with Digits, which has cut every number out */
		return (size_t)(run_of(q, end, KP_UC_N, false, v) - p);
	}
	if (!(d & KP_UC_SPACE)) {
		return (size_t)(run_of(q, end, KP_UC_SPACE | KP_UC_L | KP_UC_N | stop, true, v) -
				p);
	}
	if (stop) { /* white space ends its split when a number follows */
		const uint8_t *r = run_of(p, end, KP_UC_SPACE, false, v);
		if (r < end && (class_at(r, end, &m, v) & stop)) {
			return (size_t)(r - p);
		}
	}
	return kp_space_piece(p, end);
}

static inline uint64_t starts(const uint8_t *p, const uint8_t *end, bool *ret_all, bool digits)
{
	struct kp_block b;
	kp_block_load(&b, p, end, 0);
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

static size_t piece_plain(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, PLAIN);
}
static size_t piece_digits(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, DIGITS);
}
static size_t piece_llama(const uint8_t *p, const uint8_t *end)
{
	return piece(p, end, LLAMA_DIGITS);
}
static inline uint64_t starts_plain(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	return starts(p, end, ret_all, false);
}
static inline uint64_t starts_digits(const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	return starts(p, end, ret_all, true);
}

static void run_plain(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_plain, piece_plain);
}
static void run_digits(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_digits, piece_digits);
}
static void run_llama(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	kp_span_run(e, p, end, readable, starts_digits, piece_llama);
}

const struct kp_pretok kp_pretok_gpt2 = { "gpt2", run_plain, piece_plain };
const struct kp_pretok kp_pretok_gpt2_digits = { "gpt2-digits", run_digits, piece_digits };
const struct kp_pretok kp_pretok_smollm = { "smollm", run_llama, piece_llama };
