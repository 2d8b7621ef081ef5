/* Reading and writing by hand, held against what protobuf-c writes and what no writer makes. */
#include "tests/test.h"
#include "wire/list.h"
#include "wire/unpack.h"
#include "sglang/sglang_scheduler.pb-c.h"

#define BYTES(...) \
	kp_str_n((const char *)(const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

/* --- varints --- */

static void test_varints(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64);
	for (unsigned bits = 0; bits <= 64; bits++) {
		for (uint64_t off = 0; off < 3; off++) { /* around each power of two, 0 and 2^64 */
			uint64_t v = (bits == 64 ? 0 : UINT64_C(1) << bits) + off - 1, got = ~v;
			kp_buf_reset(&b);
			kp_wire_add_varint(&b, v);
			assert_int_equal(b.n, kp_wire_varint_size(v));
			struct kp_wire w = kp_wire_of(kp_buf_str(&b));
			assert_true(kp_wire_varint(&w, &got));
			assert_true(got == v);
			assert_false(kp_wire_more(&w));
			for (size_t n = 0; n < b.n; n++) { /* cut short */
				w = kp_wire_of(kp_str_sub(kp_buf_str(&b), 0, n));
				assert_false(kp_wire_varint(&w, &got));
			}
		}
	}
}

static void test_odd_varints(void **state)
{
	(void)state;
	uint64_t v;
	/* Longer than need be, as some writers make them. */
	struct kp_wire w = kp_wire_of(BYTES(0x81, 0x80, 0x00, 0x07));
	assert_true(kp_wire_varint(&w, &v));
	assert_int_equal(v, 1);
	assert_int_equal(w.end - w.p, 1);
	/* Ten bytes are the most; of the last one only the lowest bit has a place. */
	w = kp_wire_of(BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f));
	assert_true(kp_wire_varint(&w, &v));
	assert_true(v == UINT64_MAX);
	w = kp_wire_of(BYTES(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01));
	assert_false(kp_wire_varint(&w, &v));
}

/* --- fields --- */

static struct kp_wire_field only(kp_str bytes)
{
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	assert_true(kp_wire_more(&w));
	assert_true(kp_wire_next(&w, &f));
	assert_false(kp_wire_more(&w));
	return f;
}

static void test_fields(void **state)
{
	(void)state;
	struct kp_wire_field f = only(BYTES(0x08, 0x96, 0x01));
	assert_int_equal(f.number, 1);
	assert_int_equal(f.type, KP_WIRE_VARINT);
	assert_int_equal(f.value, 150);
	f = only(BYTES(0x12, 0x02, 'h', 'i'));
	assert_int_equal(f.number, 2);
	assert_int_equal(f.type, KP_WIRE_BYTES);
	assert_str_lit(kp_wire_str(f.bytes), "hi");
	f = only(BYTES(0x1a, 0x00));
	assert_str_lit(kp_wire_str(f.bytes), "");
	f = only(BYTES(0x25, 0x00, 0x00, 0xc0, 0x3f));
	assert_int_equal(f.type, KP_WIRE_32);
	assert_true(kp_wire_float((uint32_t)f.value) == 1.5F);
	f = only(BYTES(0x29, 1, 2, 3, 4, 5, 6, 7, 0x88));
	assert_int_equal(f.type, KP_WIRE_64);
	assert_true(f.value == UINT64_C(0x8807060504030201));
	/* The highest number there is. */
	f = only(BYTES(0xf8, 0xff, 0xff, 0xff, 0x0f, 0x05));
	assert_int_equal(f.number, (1u << 29) - 1);
	assert_int_equal(f.value, 5);
}

static void test_malformed_fields(void **state)
{
	(void)state;
	const kp_str cases[] = {
		BYTES(0x00, 0x01),           /* number 0 */
		BYTES(0x08),                 /* no value */
		BYTES(0x08, 0x80),           /* cut */
		BYTES(0x80),                 /* the key is cut */
		BYTES(0x12, 0x03, 'h', 'i'), /* longer than what is there */
		BYTES(0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'x'),
		BYTES(0x0b, 0x0c),                         /* a group */
		BYTES(0x0c),                               /* its end */
		BYTES(0x0e, 0x00), BYTES(0x0f, 0x00),      /* types that are none */
		BYTES(0x0d, 1, 2, 3),                      /* 32 bits, cut */
		BYTES(0x09, 1, 2, 3, 4, 5, 6, 7),          /* 64 bits, cut */
		BYTES(0x88, 0x80, 0x80, 0x80, 0x10, 0x01), /* number 2^29 */
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_wire w = kp_wire_of(cases[i]);
		struct kp_wire_field f;
		if (kp_wire_next(&w, &f)) {
			fail_msg("case %zu was taken", i);
		}
	}
	struct kp_wire none = kp_wire_of(KP_STR_NULL);
	assert_false(kp_wire_more(&none));
}

/* --- writers, beside protobuf-c --- */

/* The same message from protobuf-c; the ids are the caller's. */
static kp_str packed(struct kp_arena *a, const uint32_t *ids, size_t n, uint32_t prompt_tokens)
{
	Sglang__Grpc__Scheduler__GenerateStreamChunk m =
		SGLANG__GRPC__SCHEDULER__GENERATE_STREAM_CHUNK__INIT;
	m.token_ids = kp_unconst(ids);
	m.n_token_ids = n;
	m.prompt_tokens = prompt_tokens;
	uint8_t *p = kp_arena_xalloc(
		a, sglang__grpc__scheduler__generate_stream_chunk__get_packed_size(&m) + 1);
	return kp_str_n((char *)p, sglang__grpc__scheduler__generate_stream_chunk__pack(&m, p));
}

static void test_packed_lists(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	for (size_t n = 0; n < 300; n++) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		KP_AUTO(buf) struct kp_buf b;
		uint32_t *ids = kp_arena_xalloc(a, (n + 1) * sizeof(*ids));
		for (size_t i = 0; i < n; i++) { /* of every length, and where lengths change */
			ids[i] = i % 2 ? (UINT32_C(1) << (i / 2 % 32)) - (uint32_t)(n % 2)
				       : (uint32_t)(kp_rng_next(&rng) >>
						    (32 + kp_rng_below(&rng, 32)));
		}
		kp_buf_init(&b, 1 << 16);
		kp_wire_add_packed(&b, 1, ids, n);
		kp_wire_add_u64(&b, 2, 1 + n * 100000);
		assert_false(b.failed);
		assert_str(kp_buf_str(&b), packed(a, ids, n, (uint32_t)(1 + n * 100000)));
		kp_buf_reset(&b);
		kp_wire_add_varints(&b, ids, n);
		for (size_t k = 0, size = 0; k <= n; k++) {
			assert_int_equal(kp_wire_varints_size(kp_buf_str(&b), k), size);
			size += k < n ? kp_wire_varint_size(ids[k]) : 0;
		}
	}
}

/* One byte is kept for the length: bodies around where it needs another. */
static void test_bodies(void **state)
{
	(void)state;
	const size_t sizes[] = { 0, 1, 127, 128, 129, 16383, 16384, 2097151, 2097152 };
	KP_AUTO(buf) struct kp_buf b;
	KP_AUTO(buf) struct kp_buf body;
	kp_buf_init(&b, 8 << 20);
	kp_buf_init(&body, 8 << 20);
	for (size_t i = 0; i < KP_LEN(sizes); i++) {
		kp_buf_reset(&b);
		kp_buf_reset(&body);
		for (size_t k = 0; k < sizes[i]; k++) {
			kp_buf_addc(&body, (char)(k * 7 + k / 251));
		}
		size_t outer = kp_wire_begin(&b, 2047), inner = kp_wire_begin(&b, 1);
		kp_buf_add(&b, kp_buf_str(&body));
		kp_wire_end(&b, inner);
		kp_wire_end(&b, outer);
		struct kp_wire_field f = only(kp_buf_str(&b));
		assert_int_equal(f.number, 2047);
		f = only(kp_wire_str(f.bytes));
		assert_int_equal(f.number, 1);
		assert_str(kp_wire_str(f.bytes), kp_buf_str(&body));
	}
}

static void test_numbers(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 256);
	kp_wire_add_float(&b, 3, -0.25F);
	assert_str(kp_buf_str(&b), BYTES(0x1d, 0x00, 0x00, 0x80, 0xbe));
	kp_buf_reset(&b);
	kp_wire_add_bits(&b, 4, KP_WIRE_64, UINT64_C(0x8807060504030201));
	assert_str(kp_buf_str(&b), BYTES(0x21, 1, 2, 3, 4, 5, 6, 7, 0x88));
	kp_buf_reset(&b);
	kp_wire_add_str(&b, 16, KP_S("hi"));
	assert_str(kp_buf_str(&b), BYTES(0x82, 0x01, 0x02, 'h', 'i'));
	kp_buf_reset(&b);
	kp_wire_add_i64(&b, 5, -2);
	assert_str(kp_buf_str(&b),
		BYTES(0x28, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
}

/* A buffer that is full fails, once, and nothing is written behind its end. */
static void test_full(void **state)
{
	(void)state;
	const uint32_t ids[] = { 1, 300, 70000 };
	for (size_t max = 0; max < 40; max++) {
		KP_AUTO(buf) struct kp_buf b;
		struct kp_err err = KP_ERR_INIT;
		kp_buf_init(&b, max);
		size_t outer = kp_wire_begin(&b, 1);
		kp_wire_add_u64(&b, 2, 1 << 20);
		kp_wire_add_str(&b, 3, KP_S("text"));
		kp_wire_add_packed(&b, 4, ids, 3);
		kp_wire_add_float(&b, 5, 1);
		kp_wire_end(&b, outer);
		assert_true(b.n <= max);
		if (kp_buf_finish(&b, "message", &err) == 0) {
			assert_int_equal(b.n, 2 + 5 + 6 + 8 + 5 - 1);
		} else {
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
		}
	}
}

/* --- lists --- */

static size_t read_list(const struct kp_wire_field *f, enum kp_wire_type type, uint64_t *out)
{
	struct kp_wire_list l;
	size_t n = 0;
	int r;
	assert_true(kp_wire_list_of(f, type, &l));
	while ((r = kp_wire_list_next(&l, &out[n])) > 0) {
		n++;
	}
	assert_int_equal(r, 0);
	return n;
}

static void test_lists(void **state)
{
	(void)state;
	uint64_t v[8];
	struct kp_wire_field f = only(BYTES(0x0a, 0x04, 0x01, 0xac, 0x02, 0x03));
	assert_int_equal(read_list(&f, KP_WIRE_VARINT, v), 3);
	assert_int_equal(v[1], 300);
	assert_int_equal(v[2], 3);
	f = only(BYTES(0x08, 0xac, 0x02)); /* one field for each */
	assert_int_equal(read_list(&f, KP_WIRE_VARINT, v), 1);
	assert_int_equal(v[0], 300);
	f = only(BYTES(0x0a, 0x00));
	assert_int_equal(read_list(&f, KP_WIRE_VARINT, v), 0);
	f = only(BYTES(0x0a, 0x08, 1, 0, 0, 0, 2, 0, 0, 0x80));
	assert_int_equal(read_list(&f, KP_WIRE_32, v), 2);
	assert_true(v[1] == 0x80000002);
	f = only(BYTES(0x0a, 0x08, 1, 0, 0, 0, 2, 0, 0, 0x80));
	assert_int_equal(read_list(&f, KP_WIRE_64, v), 1);
	assert_true(v[0] == UINT64_C(0x8000000200000001));
}

static void test_malformed_lists(void **state)
{
	(void)state;
	struct kp_wire_list l;
	uint64_t v;
	struct kp_wire_field f = only(BYTES(0x0a, 0x03, 1, 2, 3));
	assert_false(kp_wire_list_of(&f, KP_WIRE_32, &l)); /* not a multiple */
	assert_false(kp_wire_list_of(&f, KP_WIRE_64, &l));
	f = only(BYTES(0x0d, 1, 2, 3, 4));
	assert_false(kp_wire_list_of(&f, KP_WIRE_VARINT, &l)); /* another type */
	f = only(BYTES(0x0a, 0x02, 0x01, 0x80));
	assert_true(kp_wire_list_of(&f, KP_WIRE_VARINT, &l));
	assert_int_equal(kp_wire_list_next(&l, &v), 1);
	assert_int_equal(kp_wire_list_next(&l, &v), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_odd_varints),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_malformed_fields),
		cmocka_unit_test(test_packed_lists),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_malformed_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
