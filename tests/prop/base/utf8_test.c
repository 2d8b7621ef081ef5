/* UTF-8 exhaustively: every code point, every string of up to three bytes, all that matters of four, against a reference made by
   encoding all scalar values with plain arithmetic; the lossy copy against Python's. */
#include "base/mem.h"
#include "base/utf8.h"
#include "tests/test.h"

/* Bit per string of three bytes: is it the encoding of one code point of that length? Two bytes likewise. */
static uint8_t *three;
static uint8_t *two;

static size_t encode(uint32_t cp, unsigned char out[4])
{
	if (cp < 0x80) {
		out[0] = (unsigned char)cp;
		return 1;
	}
	size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	for (size_t i = n; i-- > 1;) {
		out[i] = (unsigned char)(0x80 + cp % 64);
		cp /= 64;
	}
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	out[0] = (unsigned char)(lead[n] + cp);
	return n;
}

static bool is_scalar(uint32_t cp)
{
	return cp <= 0x10ffff && !(cp >= 0xd800 && cp <= 0xdfff);
}

static int make_reference(void **state)
{
	(void)state;
	three = kp_xcalloc(1 << 21, 1);
	two = kp_xcalloc(1 << 13, 1);
	for (uint32_t cp = 0x80; cp < 0x10000; cp++) {
		unsigned char e[4];
		size_t n = encode(cp, e);
		if (n == 2) {
			uint32_t i = (uint32_t)e[0] << 8 | e[1];
			two[i / 8] |= (uint8_t)(1 << i % 8);
		} else if (is_scalar(cp)) {
			uint32_t i = (uint32_t)e[0] << 16 | (uint32_t)e[1] << 8 | e[2];
			three[i / 8] |= (uint8_t)(1 << i % 8);
		}
	}
	return 0;
}

static int free_reference(void **state)
{
	(void)state;
	kp_free(&three);
	kp_free(&two);
	return 0;
}

static bool is_two(const unsigned char *p)
{
	uint32_t i = (uint32_t)p[0] << 8 | p[1];
	return two[i / 8] >> i % 8 & 1;
}
static bool is_three(const unsigned char *p)
{
	uint32_t i = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
	return three[i / 8] >> i % 8 & 1;
}
static bool is_four(const unsigned char *p)
{
	for (size_t i = 1; i < 4; i++) {
		if (p[i] < 0x80 || p[i] > 0xbf) {
			return false;
		}
	}
	uint32_t cp = (uint32_t)p[0] - 0xf0;
	for (size_t i = 1; i < 4; i++) {
		cp = cp * 64 + p[i] - 0x80;
	}
	return p[0] >= 0xf0 && p[0] <= 0xf7 && cp >= 0x10000 && cp <= 0x10ffff;
}

static size_t length_at(const unsigned char *p, size_t n)
{
	if (n >= 1 && p[0] < 0x80) {
		return 1;
	}
	if (n >= 2 && is_two(p)) {
		return 2;
	}
	if (n >= 3 && is_three(p)) {
		return 3;
	}
	return n >= 4 && is_four(p) ? 4 : 0;
}

/* Can bytes be added to these n < 4 so that they become one character? */
static bool is_begun(const unsigned char *p, size_t n)
{
	unsigned char q[4] = { 0, 0x80, 0x80, 0x80 };
	memcpy(q, p, n);
	if (n > 1) {
		return length_at(q, 4) > n;
	}
	for (q[1] = 0x80; q[1] < 0xc0; q[1]++) {
		if (length_at(q, 4) > n) {
			return true;
		}
	}
	return false;
}

/* All of the module's answers about s that the reference can give too. */
static void check(const unsigned char *p, size_t n)
{
	size_t ok = 0, k, last = 0;
	while (ok < n && (k = length_at(p + ok, n - ok)) != 0) {
		ok += k;
	}
	kp_str s = kp_str_n(p, n);
	uint32_t cp = 0xabcdef;
	size_t tail = 0;
	for (k = 1; k <= 3 && k <= n; k++) {
		tail = p[n - k] >= 0xc0 && is_begun(p + n - k, k) ? k : tail;
	}
	size_t first = length_at(p, n);
	for (k = 1; k <= 4 && k <= n; k++) {
		last = length_at(p + n - k, k) == k ? k : last;
	}
	if (kp_utf8_valid_prefix(s) != ok || kp_utf8_decode(s.p, n, &cp) != first ||
		(!first && cp != 0xabcdef) || kp_utf8_decode_last(s.p, n, &cp) != last ||
		kp_utf8_incomplete_tail(s) != tail) {
		fail_msg(
			"%zu bytes %02x %02x %02x %02x: prefix %zu (not %zu), decode %zu (%zu), last %zu (%zu), tail %zu (%zu)",
			n, p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0,
			kp_utf8_valid_prefix(s), ok, kp_utf8_decode(s.p, n, &cp), first,
			kp_utf8_decode_last(s.p, n, &cp), last, kp_utf8_incomplete_tail(s), tail);
	}
}

static void every_code_point(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 16);
	for (uint32_t cp = 0; cp < 0x110000; cp++) {
		unsigned char want[4];
		char got[4];
		uint32_t back = 0;
		size_t n = encode(cp, want);
		if (!is_scalar(cp)) {
			assert_int_equal(kp_utf8_decode((char *)want, n, &back), 0);
			continue;
		}
		assert_int_equal(kp_utf8_encode(cp, got), n);
		assert_memory_equal(got, want, n);
		assert_int_equal(kp_utf8_decode(got, n, &back), n);
		assert_int_equal(back, cp);
		back = 0;
		assert_int_equal(kp_utf8_decode_last(got, n, &back), n);
		assert_int_equal(back, cp);
		for (size_t cut = 1; cut < n; cut++) {
			assert_int_equal(kp_utf8_decode(got, cut, &back), 0);
			assert_int_equal(kp_utf8_incomplete_tail(kp_str_n(got, cut)), cut);
		}
		assert_int_equal(kp_utf8_incomplete_tail(kp_str_n(got, n)), 0);
		kp_buf_reset(&b);
		kp_utf8_add(&b, cp);
		assert_str(kp_buf_str(&b), kp_str_n(want, n));
		assert_int_equal(kp_utf8_count(kp_buf_str(&b)), 1);
	}
}

static void every_string_of_up_to_three_bytes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1 << 24; i++) {
		unsigned char p[3] = { (unsigned char)(i >> 16), (unsigned char)(i >> 8),
			(unsigned char)i };
		check(p, 3);
		if (i % 256 == 0) {
			check(p, 2);
		}
		if (i % 65536 == 0) {
			check(p, 1);
		}
	}
}

static const unsigned char edges[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0,
	0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf7,
	0xf8, 0xfe, 0xff };

static void four_bytes_and_more_at_the_edges(void **state)
{
	(void)state;
	enum { E = KP_LEN(edges) };
	for (uint32_t i = 0; i < (uint32_t)E * E * E * E; i++) {
		unsigned char p[4] = { edges[i / E / E / E], edges[i / E / E % E], edges[i / E % E],
			edges[i % E] };
		check(p, 4);
	}
	/* All second bytes after all four-byte leads. */
	for (uint32_t i = 0; i < 16 << 8; i++) {
		unsigned char p[4] = { (unsigned char)(0xf0 + i / 256), (unsigned char)i, 0x80,
			0xbf };
		check(p, 4);
	}
}

/* The same four bytes within a text of three-byte characters, at each place of a step. */
static void edges_within_a_long_text(void **state)
{
	(void)state;
	enum { E = KP_LEN(edges), SIZE = 160, PLACES = 23 };
	unsigned char text[SIZE];
	for (uint32_t place = 0; place < PLACES; place++) {
		size_t at = 3 * (size_t)(20 + place);
		memset(text, 'a', SIZE);
		for (size_t k = 0; k < at; k++) {
			text[k] = (unsigned char)"\xe4\xb8\xad"[k % 3];
		}
		for (uint32_t i = place; i < (uint32_t)E * E * E * E; i += PLACES) {
			const unsigned char p[4] = { edges[i / E / E / E], edges[i / E / E % E],
				edges[i / E % E], edges[i % E] };
			size_t want = at;
			memcpy(text + at, p, 4);
			/* Behind the four there is only ASCII. */
			for (size_t k;
				want < at + 4 && (k = length_at(text + want, SIZE - want));) {
				want += k;
			}
			assert_int_equal(kp_utf8_valid_prefix(kp_str_n(text, SIZE)),
				want < at + 4 ? want : SIZE);
		}
	}
}

/* Long ones: the 32-byte steps, and where valid text ends. */
static void long_random_text(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	enum { MAX = 400 };
	for (int round = 0; round < 20000; round++) {
		unsigned char text[MAX + 4];
		size_t n = 0, want = 0, count = 0, size = kp_rng_below(&rng, MAX);
		uint64_t ascii = kp_rng_below(&rng, 100);
		while (n < size) {
			uint32_t cp = (uint32_t)(kp_rng_below(&rng, 100) < ascii
							 ? kp_rng_below(&rng, 128)
							 : kp_rng_below(&rng, 0x110000));
			if (is_scalar(cp)) {
				n += encode(cp, text + n);
				count++;
			}
		}
		assert_int_equal(kp_utf8_valid_prefix(kp_str_n(text, n)), n);
		assert_int_equal(kp_utf8_count(kp_str_n(text, n)), count);
		if (n) {
			text[kp_rng_below(&rng, n)] = (unsigned char)kp_rng_below(&rng, 256);
		}
		for (size_t k; want < n && (k = length_at(text + want, n - want)) != 0;) {
			want += k;
		}
		assert_int_equal(kp_utf8_valid_prefix(kp_str_n(text, n)), want);
	}
}

/* FNV-1a over the lossy copies of all strings of one to four edge bytes, in order, each closed with a newline. Python's answer:
     E = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f7f8feff"); h = 0xcbf29ce484222325
     for n in 1, 2, 3, 4:
       for t in itertools.product(E, repeat=n):
         for b in bytes(t).decode("utf-8", "replace").encode() + b"\n": h = (h ^ b) * 0x100000001b3 % 2**64 */
static const uint64_t python_lossy = UINT64_C(0xd4103437ac64c10e);

static void lossy_copies_are_python_s(void **state)
{
	(void)state;
	enum { E = KP_LEN(edges) };
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 100);
	uint32_t total = E;
	for (size_t n = 1; n <= 4; n++, total *= E) {
		for (uint32_t i = 0; i < total; i++) {
			unsigned char p[4];
			uint32_t rest = i;
			for (size_t k = n; k-- > 0; rest /= E) {
				p[k] = edges[rest % E];
			}
			kp_buf_reset(&b);
			kp_utf8_add_lossy(&b, kp_str_n(p, n));
			kp_buf_addc(&b, '\n');
			for (size_t k = 0; k < b.n; k++) {
				h = (h ^ (unsigned char)b.p[k]) * UINT64_C(0x100000001b3);
			}
		}
	}
	assert_true(h == python_lossy);
}

/* A stream cut anywhere: keeping the incomplete tail back gives the same text as the whole. */
static void cut_streams_decode_alike(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	KP_AUTO(buf) struct kp_buf whole, pieces, pending;
	kp_buf_init(&whole, 10000);
	kp_buf_init(&pieces, 10000);
	kp_buf_init(&pending, 10000);
	for (int round = 0; round < 20000; round++) {
		unsigned char text[64];
		size_t n = kp_rng_below(&rng, sizeof(text));
		for (size_t i = 0; i < n; i++) {
			text[i] = edges[kp_rng_below(&rng, sizeof(edges))];
		}
		kp_buf_reset(&whole);
		kp_buf_reset(&pieces);
		kp_buf_reset(&pending);
		kp_utf8_add_lossy(&whole, kp_str_n(text, n));
		for (size_t at = 0; at < n;) {
			size_t k = 1 + kp_rng_below(&rng, 5);
			k = KP_MIN(k, n - at);
			kp_buf_add(&pending, kp_str_n(text + at, k));
			at += k;
			size_t tail = kp_utf8_incomplete_tail(kp_buf_str(&pending));
			assert_in_range(tail, 0, 3);
			kp_utf8_add_lossy(
				&pieces, kp_str_sub(kp_buf_str(&pending), 0, pending.n - tail));
			kp_buf_consume(&pending, pending.n - tail);
		}
		kp_utf8_add_lossy(&pieces, kp_buf_str(&pending));
		assert_str(kp_buf_str(&pieces), kp_buf_str(&whole));
		assert_true(kp_utf8_ok(kp_buf_str(&whole)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_point),
		cmocka_unit_test(every_string_of_up_to_three_bytes),
		cmocka_unit_test(four_bytes_and_more_at_the_edges),
		cmocka_unit_test(edges_within_a_long_text),
		cmocka_unit_test(long_random_text),
		cmocka_unit_test(lossy_copies_are_python_s),
		cmocka_unit_test(cut_streams_decode_alike),
	};
	return cmocka_run_group_tests(tests, make_reference, free_reference);
}
