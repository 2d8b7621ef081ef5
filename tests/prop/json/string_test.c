/* String literals of every make, in texts that end anywhere behind them, read by the pull reader into arenas of every state: the value or the place of the error
   is that of a decoder which looks at one byte at a time. The text is in a block of its own length, so that sanitizers see a byte too far. */
#include "base/mem.h"
#include "base/utf8.h"
#include "json/reader.h"
#include "json/unescape.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 30000, PIECES = 12, MAX = 1 << 16 };

/* What is expected of a literal; at: of the error. */
struct expected {
	char out[MAX];
	size_t n, at;
	const char *why; /* NULL: none */
};

static int digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static long unit(const char *s, size_t n, size_t i)
{
	long v = 0;
	if (i + 6 > n || s[i] != '\\' || s[i + 1] != 'u') {
		return -1;
	}
	for (size_t k = 2; k < 6; k++) {
		int d = digit(s[i + k]);
		if (d < 0) {
			return -1;
		}
		v = v * 16 + d;
	}
	return v;
}

/* The escape at s[*i]; false: wrong. */
static bool one_escape(const char *s, size_t n, size_t *i, struct expected *e)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *c = s[*i + 1] ? strchr(from, s[*i + 1]) : NULL;
	if (c) {
		e->out[e->n++] = to[c - from];
		*i += 2;
		return true;
	}
	long u = unit(s, n, *i), low = unit(s, n, *i + 6);
	if (u < 0) {
		e->why = "invalid escape";
		return false;
	}
	*i += 6;
	if (u >= 0xd800 && u < 0xe000) {
		if (u >= 0xdc00 || low < 0xdc00 || low > 0xdfff) {
			*i -= 6;
			e->why = "lone surrogate escape";
			return false;
		}
		u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
		*i += 6;
	}
	e->n += kp_utf8_encode((uint32_t)u, e->out + e->n);
	return true;
}

/* s[0] is the opening quote. */
static void expect(const char *s, size_t n, struct expected *e)
{
	size_t q = 1, i = 1;
	e->n = 0;
	e->why = NULL;
	while (q < n && s[q] != '"') {
		q += s[q] == '\\' ? 2 : 1;
	}
	/* Without an escape before it, a control character is told of first. */
	while (i < q && i < n && s[i] != '\\' && (unsigned char)s[i] >= 0x20) {
		e->out[e->n++] = s[i++];
	}
	bool control_first = i < n && i < q && s[i] != '\\';
	if (q >= n && !control_first) {
		e->why = "the text ends inside a string";
		e->at = n;
		return;
	}
	while (i < q && !e->why) {
		if (s[i] == '\\') {
			(void)one_escape(s, n, &i, e);
		} else if ((unsigned char)s[i] < 0x20) {
			e->why = "control character in a string";
		} else {
			e->out[e->n++] = s[i++];
		}
	}
	e->at = i;
	size_t ok = kp_utf8_valid_prefix(kp_str_n(s + 1, q - 1));
	if (!e->why && ok < q - 1) {
		e->why = "invalid UTF-8";
		e->at = ok + 1;
	}
}

static void put_piece(struct kp_rng *r, struct kp_buf *b)
{
	static const char *const some[] = { "\\n", "\\\"", "\\\\", "\\/", "\\t", "\\u00e9",
		"\\u4E2d", "\\ud83d\\ude00", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80",
		"\\u0000" };
	static const char *const wrong[] = { "\\x", "\\u12", "\\ud83d", "\\ude00", "\n", "\xff",
		"\"", "\\", "\\ud83d\\n" };
	size_t k = kp_rng_below(r, 100);
	if (k < 45) {
		for (size_t n = kp_rng_below(r, kp_rng_below(r, 6) ? 40 : 200); n; n--) {
			kp_buf_addc(b, (char)('a' + kp_rng_below(r, 26)));
		}
	} else if (k < 60) {
		static const uint32_t below[] = { 0x80, 0x100, 0x800, 0x2000, 0x10000 };
		for (size_t n = kp_rng_below(r, 30); n; n--) {
			uint32_t cp =
				(uint32_t)kp_rng_below(r, below[kp_rng_below(r, KP_LEN(below))]);
			bool is_half = (cp & 0xf800) == 0xd800;
			kp_buf_printf(b, kp_rng_below(r, 2) ? "\\u%04x" : "\\u%04X",
				is_half && kp_rng_below(r, 50) ? cp & 0xfff : cp);
		}
	} else if (k < 99) {
		const char *piece = some[kp_rng_below(r, KP_LEN(some))];
		for (size_t n = kp_rng_below(r, 8) ? 1 : kp_rng_below(r, 90); n; n--) {
			kp_buf_addz(b, piece);
		}
	} else {
		kp_buf_addz(b, wrong[kp_rng_below(r, KP_LEN(wrong))]);
	}
}

static void check(const char *text, size_t n, struct kp_arena *a, struct expected *e)
{
	struct kp_json j;
	struct kp_err err = KP_ERR_INIT;
	kp_str got;
	char want[128];
	expect(text, n, e);
	kp_json_init(&j, kp_str_n(text, n), a);
	int r = kp_json_string(&j, &got, &err);
	if (e->why) {
		snprintf(want, sizeof(want), "parse JSON: %s at byte %zu", e->why, e->at);
		assert_int_equal(r, -1);
		assert_string_equal(err.msg, want);
	} else {
		assert_int_equal(r, 0);
		assert_true(kp_str_eq(got, kp_str_n(e->out, e->n)));
		assert_ptr_equal(j.p, text + e->at + 1);
	}
	kp_json_init(&j, kp_str_n(text, n), a);
	assert_int_equal(kp_json_skip(&j, NULL, &err), r); /* without a value the same */
	if (e->why) {
		assert_string_equal(err.msg, want);
	}
}

/* Processors of all kinds do the same, also where the room ends. */
static void check_both(const char *text, size_t n, struct kp_rng *r)
{
	size_t room = kp_rng_below(r, 3) ? n + KP_JSON_UNESCAPE_SLACK : kp_rng_below(r, n + 200);
	char *a = kp_xmalloc(room + 1), *b = kp_xmalloc(room + 1);
	struct kp_json_unescape u = { .p = text + 1, .end = text + n, .at = a, .limit = a + room },
				w = u;
	w.at = b;
	w.limit = b + room;
	enum kp_json_unescaped ru = kp_json_unescape_some(&u), rw = kp_json_unescape_narrow(&w);
	while (ru == KP_JSON_NO_ROOM || rw == KP_JSON_NO_ROOM) { /* how far they came may differ */
		size_t more = n + KP_JSON_UNESCAPE_SLACK, nu = (size_t)(u.at - a),
		       nw = (size_t)(w.at - b);
		char *aa = kp_xmalloc(nu + more), *bb = kp_xmalloc(nw + more);
		memcpy(aa, a, nu);
		memcpy(bb, b, nw);
		kp_free(&a);
		kp_free(&b);
		a = aa;
		b = bb;
		u.at = a + nu;
		u.limit = a + nu + more;
		w.at = b + nw;
		w.limit = b + nw + more;
		ru = ru == KP_JSON_NO_ROOM ? kp_json_unescape_some(&u) : ru;
		rw = rw == KP_JSON_NO_ROOM ? kp_json_unescape_narrow(&w) : rw;
	}
	assert_int_equal(ru, rw);
	assert_ptr_equal(u.p, w.p);
	assert_true(kp_str_eq(kp_str_n(a, (size_t)(u.at - a)), kp_str_n(b, (size_t)(w.at - b))));
	assert_true(ru == KP_JSON_AT_QUOTE || strcmp(u.why, w.why) == 0);
	kp_free(&a);
	kp_free(&b);
}

static void strings_are_what_they_stand_for(void **state)
{
	(void)state;
	struct kp_rng r;
	struct expected *e = kp_new(struct expected);
	struct kp_arena *a = kp_arena_create(64 << 20);
	struct kp_buf b;
	kp_buf_init(&b, MAX);
	kp_rng_seed(&r, test_seed());
	size_t wrong = 0;
	for (size_t i = 0; i < ROUNDS; i++) {
		kp_buf_reset(&b);
		kp_buf_addc(&b, '"');
		for (size_t k = kp_rng_below(&r, PIECES); k; k--) {
			put_piece(&r, &b);
		}
		if (kp_rng_below(&r, 50)) {
			kp_buf_addc(&b, '"');
		}
		for (size_t k = kp_rng_below(&r, 3) ? 0 : kp_rng_below(&r, 300); k; k--) {
			kp_buf_addc(&b, "],\" \\"[kp_rng_below(&r, 5)]);
		}
		assert_false(b.failed);
		char *own = kp_xmalloc(b.n);
		memcpy(own, b.p, b.n);
		check(own, b.n, a, e);
		check_both(own, b.n, &r);
		wrong += e->why != NULL;
		kp_free(&own);
		if (kp_rng_below(&r, 40) == 0) {
			kp_arena_reset(a);
		}
	}
	print_message("# %d literals, %zu of them wrong\n", ROUNDS, wrong);
	kp_buf_fini(&b);
	kp_arena_destroy(a);
	kp_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(strings_are_what_they_stand_for) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
