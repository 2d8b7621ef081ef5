/* DESIGN: prose and code have an escape every twenty bytes, at places that no branch predictor knows. So with SSE2 64 bytes at a time are looked
   at, one bit for each byte that is special, and the bits are walked: what stands between two of them is copied by moves of a fixed length, which
   write more than they have to, and only the number of escapes in 64 bytes is a surprise. Processors that can leave bytes out of a vector (AVX-512
   VBMI2, asked for at run time) need no walk and have no surprise at all. What is left at the end, and all of it without SSE2, goes from one special byte
   to the next. */
#include "json/unescape.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64, STEP_ROOM = 2 * BLOCK };

/* The value of a hexadecimal digit, one more than it; 0: none. */
static const uint8_t hex_digit[256] = { ['0'] = 1,
	['1'] = 2,
	['2'] = 3,
	['3'] = 4,
	['4'] = 5,
	['5'] = 6,
	['6'] = 7,
	['7'] = 8,
	['8'] = 9,
	['9'] = 10,
	['a'] = 11,
	['b'] = 12,
	['c'] = 13,
	['d'] = 14,
	['e'] = 15,
	['f'] = 16,
	['A'] = 11,
	['B'] = 12,
	['C'] = 13,
	['D'] = 14,
	['E'] = 15,
	['F'] = 16 };

/* Above 0xffff: not four digits. */
static inline uint32_t hex4(const char *p)
{
	uint32_t v = 0;
	for (int i = 0; i < 4; i++) { /* no digit: all bits from here up */
		v |= (uint32_t)(hex_digit[(unsigned char)p[i]] - 1) << (12 - 4 * i);
	}
	return v;
}

const char *kp_json_escape(
	const char *p, const char *end, char *out, size_t *ret_n, const char **why)
{
	*ret_n = 1;
	*why = "invalid escape";
	if (p >= end) {
		return NULL;
	}
	unsigned char c = (unsigned char)*p;
	if (c < 128 && kp_json_simple_escape[c]) {
		*out = kp_json_simple_escape[c];
		return p + 1;
	}
	if (c != 'u') {
		return NULL;
	}
	uint32_t cp = end - p >= 5 ? hex4(p + 1) : UINT32_MAX;
	if (cp > 0xffff) {
		return NULL;
	}
	p += 5;
	if (cp >= 0xd800 && cp <= 0xdfff) {
		uint32_t low =
			end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : UINT32_MAX;
		if (cp >= 0xdc00 || low < 0xdc00 || low > 0xdfff) {
			*why = "lone surrogate escape";
			return NULL;
		}
		cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	}
	*ret_n = kp_utf8_encode(cp, out);
	return p;
}

#if defined(__SSE2__)

/* Bit i: byte i of v is special. */
static inline uint64_t special16(__m128i v)
{
	const __m128i quote = _mm_set1_epi8('"'), back = _mm_set1_epi8('\\'),
		      ctl = _mm_set1_epi8(0x1f);
	__m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)),
		_mm_cmpeq_epi8(_mm_max_epu8(v, ctl), ctl));
	return (unsigned)_mm_movemask_epi8(hit);
}

/* The same of the 64 bytes at p. */
static inline uint64_t special64(const char *p, bool *non_ascii)
{
	const __m128i *at = (const __m128i *)(const void *)p;
	__m128i a = _mm_loadu_si128(at), b = _mm_loadu_si128(at + 1), c = _mm_loadu_si128(at + 2),
		d = _mm_loadu_si128(at + 3);
	*non_ascii |= _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))) != 0;
	return special16(a) | special16(b) << 16 | special16(c) << 32 | special16(d) << 48;
}

/* n <= BLOCK bytes; writes 32 or 64. Reads no more than `BLOCK` behind `from`. */
static inline void copy_some(char *to, const char *from, size_t n)
{
	memcpy(to, from, 32);
	if (KP_UNLIKELY(n > 32)) {
		memcpy(to + 32, from + 32, 32);
	}
}

/* Block by block, while there is room, and as much text behind a block as copies may read. True: the rest has to go on from p, where an escape that is
   not of two bytes may be; false: p is at the quote or at a byte that must not be here. */
static bool blocks(struct kp_json_unescape *u)
{
	const char *p = u->p;
	char *at = u->at;
	bool more = true, non_ascii = false;
	while (u->end - p > STEP_ROOM && u->limit - at >= STEP_ROOM) {
		uint64_t bits = special64(p, &non_ascii);
		size_t from = 0;
		while (bits) {
			size_t i = (size_t)__builtin_ctzll(bits);
			unsigned char c = (unsigned char)p[i + 1];
			copy_some(at, p + from, i - from);
			at += i - from;
			from = i;
			if (KP_UNLIKELY(p[i] != '\\')) {
				more = false;
				goto out;
			}
			if (KP_UNLIKELY(c >= 128 || !kp_json_simple_escape[c])) {
				goto out;
			}
			*at++ = kp_json_simple_escape[c];
			from = i + 2;
			bits &= ~(UINT64_C(3) << i); /* what is escaped is not special */
		}
		if (from < BLOCK) {
			copy_some(at, p + from, BLOCK - from);
			at += BLOCK - from;
			from = BLOCK;
		}
		p += from;
		continue;
	out:
		p += from;
		break;
	}
	u->p = p;
	u->at = at;
	u->non_ascii |= non_ascii;
	return more;
}

#else

static bool blocks(struct kp_json_unescape *u)
{
	(void)u;
	return true;
}

#endif

#if defined(__x86_64__)

static const uint8_t lane_number[BLOCK] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38,
	39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61,
	62, 63 };

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")))

/* Of the backslashes of a block that begins outside of an escape, those that begin one: every other one of a row, the first first. */
static inline uint64_t first_of_pairs(uint64_t backslashes)
{
	const uint64_t odd = UINT64_C(0xaaaaaaaaaaaaaaaa);
	uint64_t behind = backslashes << 1;
	return (((behind | odd) - backslashes) ^ odd) & backslashes;
}

/* Of a block's bytes, a bit for each. The bytes are not in here: where gcc 12's AddressSanitizer keeps locals that have an address, 64 bytes are not aligned
   (GCC's bug 110027). */
struct wide {
	uint64_t escape; /* backslashes that begin an escape */
	uint64_t drop;   /* not part of the text */
	uint64_t stop;   /* backslashes of escapes that are not done here */
	uint64_t late;   /* backslashes of those that are not whole in this block */
};

/* Escapes of one unit, \uXXXX, `units` their backslashes. The last two or three of its six bytes become the character's: with the digits a, b, c and d 1110aaaa 10bbbbcc
   10ccdddd, or 110bbbcc 10ccdddd where a is 0 and b below 8. Left to others: surrogates, and what is ASCII. */
WIDE static inline __m512i wide_units(__m512i v, uint64_t units, struct wide *w)
{
	const __m512i low = _mm512_loadu_si512(hex_digit),
		      high = _mm512_loadu_si512(hex_digit + BLOCK), one = _mm512_set1_epi8(1),
		      before = _mm512_add_epi8(
			      _mm512_set1_epi8(-1), _mm512_loadu_si512(lane_number));
	__m512i found = _mm512_permutex2var_epi8(low, v, high), h = _mm512_sub_epi8(found, one),
		hb = _mm512_permutexvar_epi8(before, h); /* the digit before */
	uint64_t is_hex = _mm512_test_epi8_mask(found, found) & ~_mm512_movepi8_mask(v);
	w->late |= units & UINT64_C(0x1f) << (BLOCK - 5);
	units &= ~w->late;
	uint64_t whole = units & is_hex >> 2 & is_hex >> 3 & is_hex >> 4 & is_hex >> 5;
	uint64_t b = whole << 3, c = whole << 4, d = whole << 5;
	uint64_t below8 = _mm512_cmplt_epu8_mask(h, _mm512_set1_epi8(8)),
		 two = b & below8 & _mm512_testn_epi8_mask(hb, hb),
		 ascii = two & _mm512_testn_epi8_mask(h, h) & below8 >> 1,
		 surrogate = b & ~below8 & _mm512_cmpeq_epi8_mask(hb, _mm512_set1_epi8(0xd));
	w->stop |= (units & ~whole) | (ascii | surrogate) >> 3;
	w->drop |= whole << 1 | whole << 2 | two;
	__m512i first = _mm512_or_si512(hb, _mm512_set1_epi8((char)0xe0)),
		last = _mm512_or_si512(
			_mm512_slli_epi16(_mm512_and_si512(hb, _mm512_set1_epi8(3)), 4),
			_mm512_or_si512(h, _mm512_set1_epi8((char)0x80))),
		middle = _mm512_or_si512(_mm512_slli_epi16(hb, 2),
			_mm512_and_si512(_mm512_srli_epi16(h, 2), _mm512_set1_epi8(3)));
	middle = _mm512_or_si512(
		middle, _mm512_mask_blend_epi8(two << 1, _mm512_set1_epi8((char)0x80),
				_mm512_set1_epi8((char)0xc0)));
	v = _mm512_mask_mov_epi8(v, b, first);
	v = _mm512_mask_mov_epi8(v, c, middle);
	return _mm512_mask_mov_epi8(v, d, last);
}

/* As `blocks`. A block ends before an escape that is not whole in it, and before what it cannot do. */
WIDE static bool wide_blocks(struct kp_json_unescape *u)
{
	const char *p = u->p;
	char *at = u->at;
	uint64_t stop = 0, wrong = 0, high = 0, n = 0;
	const __m512i low_table = _mm512_loadu_si512(kp_json_simple_escape),
		      high_table = _mm512_loadu_si512(kp_json_simple_escape + BLOCK);
	while (!stop && u->end - p > BLOCK && u->limit - at >= BLOCK) {
		__m512i v = _mm512_loadu_si512(p);
		struct wide w;
		uint64_t above = _mm512_movepi8_mask(v),
			 back = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\')),
			 quote = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')),
			 control = _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(0x20)),
			 escape = first_of_pairs(back), escaped = escape << 1;
		uint64_t unit = escaped & _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('u'));
		__m512i plain = _mm512_permutex2var_epi8(low_table, v, high_table);
		wrong = (quote | control) & ~escaped;
		escaped &= ~unit;
		w.late = escape & UINT64_C(1) << (BLOCK - 1);
		w.drop = escape;
		w.stop = wrong | (escaped & (above | _mm512_testn_epi8_mask(plain, plain))) >> 1;
		v = _mm512_mask_blend_epi8(escaped, v, plain);
		if (unit) {
			v = wide_units(v, unit >> 1, &w);
		}
		uint64_t end = w.stop | w.late, keep = ~w.drop;
		if (KP_LIKELY(!end)) { /* where the next block begins does not wait for this one */
			_mm512_storeu_si512(at, _mm512_maskz_compress_epi8(keep, v));
			at += _mm_popcnt_u64(keep);
			high |= above;
			p += BLOCK;
			continue;
		}
		uint64_t before = _blsmsk_u64(end) >> 1; /* all bits below the first one of `end` */
		n = (uint64_t)_mm_popcnt_u64(before);
		keep &= before;
		_mm512_storeu_si512(at, _mm512_maskz_compress_epi8(keep, v));
		at += _mm_popcnt_u64(keep);
		high |= above & before;
		p += n;
		stop = w.stop >> n & 1; /* a later one is met again */
	}
	u->p = p;
	u->at = at;
	u->non_ascii |= high != 0;
	return !(stop && (wrong >> n & 1));
}

static bool is_wide(void)
{
	return __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vbmi") &&
	       __builtin_cpu_supports("avx512bw");
}

#else

static bool wide_blocks(struct kp_json_unescape *u)
{
	return blocks(u);
}

static bool is_wide(void)
{
	return false;
}

#endif

/* The escape of one unit that is a character at p, written to *at; the place behind it, or p where it is no such escape. */
static inline const char *one_unit(const char *p, const char *end, char **at)
{
	if (end - p < 6 || p[1] != 'u') {
		return p;
	}
	uint32_t cp = hex4(p + 2), last = 0x80 | (cp & 0x3f), two = (0xc0 | cp >> 6) | last << 8,
		 three = (0xe0 | cp >> 12) | (0x80 | (cp >> 6 & 0x3f)) << 8 | last << 16;
	if (cp < 0x80 || cp > 0xffff || (cp & 0xf800) == 0xd800) {
		return p;
	}
	uint32_t bytes = cp < 0x800 ? two : three;
	const char out[4] = { (char)bytes, (char)(bytes >> 8), (char)(bytes >> 16) };
	memcpy(*at, out, sizeof(out));
	*at += cp < 0x800 ? 2 : 3;
	return p + 6;
}

/* Text of other scripts, most of it escapes, up to a few bytes that are none. */
static enum kp_json_unescaped escapes(struct kp_json_unescape *u)
{
	enum { FEW = 8 };
	for (int plain = 0; u->p < u->end && plain < FEW;) {
		unsigned char c = (unsigned char)*u->p;
		size_t n;
		if (u->limit - u->at < STEP_ROOM) {
			return KP_JSON_NO_ROOM;
		}
		if (c != '\\') {
			if (kp_json_is_special(c)) {
				break;
			}
			u->non_ascii |= c >= 0x80;
			*u->at++ = (char)c;
			u->p++;
			plain++;
			continue;
		}
		const char *next = one_unit(u->p, u->end, &u->at);
		if (next == u->p) {
			next = kp_json_escape(u->p + 1, u->end, u->at, &n, &u->why);
			if (!next) {
				return KP_JSON_WRONG;
			}
			u->at += n;
		}
		u->p = next;
		plain = 0;
	}
	return KP_JSON_AT_QUOTE;
}

static enum kp_json_unescaped at_end(struct kp_json_unescape *u)
{
	if (u->p < u->end && *u->p == '"') {
		return KP_JSON_AT_QUOTE;
	}
	u->why = u->p == u->end ? "the text ends inside a string" : "control character in a string";
	return KP_JSON_WRONG;
}

static enum kp_json_unescaped unescape(
	struct kp_json_unescape *u, bool (*step)(struct kp_json_unescape *u))
{
	while (step(u)) {
		if (u->limit - u->at < STEP_ROOM) {
			return KP_JSON_NO_ROOM;
		}
		size_t n = KP_MIN((size_t)(u->end - u->p), (size_t)BLOCK);
		const char *end = u->p + n, *stop = kp_json_scan(u->p, end, &u->non_ascii);
		memcpy(u->at, u->p, (size_t)(stop - u->p));
		u->at += stop - u->p;
		u->p = stop;
		if (stop < end && *stop == '\\') {
			enum kp_json_unescaped r = escapes(u);
			if (r) {
				return r;
			}
		} else if (stop < end || stop == u->end) {
			break;
		}
	}
	return at_end(u);
}

enum kp_json_unescaped kp_json_unescape_some(struct kp_json_unescape *u)
{
	return unescape(u, is_wide() ? wide_blocks : blocks);
}

enum kp_json_unescaped kp_json_unescape_narrow(struct kp_json_unescape *u)
{
	return unescape(u, blocks);
}
