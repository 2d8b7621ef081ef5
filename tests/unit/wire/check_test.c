/* What is refused before protobuf-c reads it, with which error; and that what is taken is unpacked as it is. */
#include "tests/test.h"
#include "wire/unpack.h"
#include "wire/wire.h"
#include "kelpie/control/v1/control.pb-c.h"
#include "sglang/sglang_scheduler.pb-c.h"

#define BYTES(...) \
	kp_str_n((const char *)(const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static const ProtobufCMessageDescriptor *const operator_message =
	&kelpie__control__v1__operator_message__descriptor;
static const ProtobufCMessageDescriptor *const endpoint =
	&kelpie__control__v1__endpoint__descriptor;
static const ProtobufCMessageDescriptor *const chunk =
	&sglang__grpc__scheduler__generate_stream_chunk__descriptor;
static const ProtobufCMessageDescriptor *const logprobs =
	&sglang__grpc__scheduler__output_log_probs__descriptor;

static int check(const ProtobufCMessageDescriptor *d, kp_str bytes,
	const struct kp_wire_limits *limits, struct kp_err *err)
{
	*err = KP_ERR_INIT;
	return kp_wire_check(d, bytes, limits, err);
}
#define assert_taken(d, bytes)                                        \
	do {                                                          \
		struct kp_err err_;                                   \
		int r_ = check((d), (bytes), &KP_WIRE_LIMITS, &err_); \
		assert_string_equal(err_.msg, "");                    \
		assert_int_equal(r_, 0);                              \
	} while (0)
#define assert_refused(d, bytes, want)                                             \
	do {                                                                       \
		struct kp_err err_;                                                \
		assert_int_equal(check((d), (bytes), &KP_WIRE_LIMITS, &err_), -1); \
		assert_int_equal(err_.code, KP_INTERNAL);                          \
		assert_string_equal(err_.msg, (want));                             \
	} while (0)

static void test_taken(void **state)
{
	(void)state;
	assert_taken(endpoint, KP_STR_NULL);
	assert_taken(endpoint, BYTES(0x0a, 0x01, 'e', 0x10, 0x05));
	assert_taken(endpoint, BYTES(0x0a, 0x03, 0xe2, 0x82, 0xac)); /* a euro sign */
	assert_taken(endpoint, BYTES(0x0a, 0x00, 0x0a, 0x00)); /* twice: the last one counts */
	/* What is not known is passed over: a string that is none, a message that is none. */
	assert_taken(endpoint, BYTES(0x7a, 0x02, 0xff, 0x00));
	assert_taken(endpoint, BYTES(0xfa, 0x01, 0x01, 0x0b));
	/* Lists in both encodings, mixed. */
	assert_taken(chunk, BYTES(0x0a, 0x02, 0x01, 0x02, 0x08, 0x03, 0x0a, 0x00));
	assert_taken(
		logprobs, BYTES(0x0a, 0x08, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x0d, 0, 0, 0, 0));
}

static void test_refused(void **state)
{
	(void)state;
	const char *bad = "read `kelpie.control.v1.Endpoint`: not valid protobuf",
		   *type = "read `kelpie.control.v1.Endpoint`: a field has the wrong type";
	assert_refused(endpoint, BYTES(0x0a, 0x02, 'e'), bad);
	assert_refused(endpoint, BYTES(0x0b, 0x0c), bad); /* a group */
	assert_refused(endpoint, BYTES(0x00, 0x00), bad);
	assert_refused(endpoint, BYTES(0x10, 0x80), bad);
	assert_refused(
		endpoint, BYTES(0x7a, 0x05, 0x00), bad);   /* unknown, and longer than the rest */
	assert_refused(endpoint, BYTES(0x08, 0x01), type); /* a number for a string */
	assert_refused(
		endpoint, BYTES(0x12, 0x01, 0x01), type); /* the other way: `index` is no list */
	assert_refused(endpoint, BYTES(0x15, 1, 2, 3, 4), type);
	assert_refused(endpoint, BYTES(0x0a, 0x02, 0xc3, 0x28),
		"read `kelpie.control.v1.Endpoint`: a string is not valid UTF-8");
	assert_refused(endpoint, BYTES(0x0a, 0x03, 0xed, 0xa0, 0x80), /* half of a pair */
		"read `kelpie.control.v1.Endpoint`: a string is not valid UTF-8");
	assert_refused(endpoint, BYTES(0x0a, 0x03, 'a', 0x00, 'b'),
		"read `kelpie.control.v1.Endpoint`: a string contains NUL");
	/* The name is that of the message inside. */
	assert_refused(operator_message, BYTES(0x12, 0x04, 0x0a, 0x02, 0x08, 0x80),
		"read `kelpie.control.v1.Revision`: not valid protobuf");
}

static void test_packed_refused(void **state)
{
	(void)state;
	assert_refused(chunk, BYTES(0x0a, 0x02, 0x01, 0x80),
		"read `sglang.grpc.scheduler.GenerateStreamChunk`: not valid protobuf");
	assert_refused(logprobs, BYTES(0x0a, 0x05, 0, 0, 0, 0, 0),
		"read `sglang.grpc.scheduler.OutputLogProbs`: not valid protobuf");
	assert_refused(logprobs, BYTES(0x08, 0x01),
		"read `sglang.grpc.scheduler.OutputLogProbs`: a field has the wrong type");
}

/* --- limits --- */

#define assert_over(d, bytes, limits, want)                                 \
	do {                                                                \
		struct kp_err err_;                                         \
		assert_int_equal(check((d), (bytes), (limits), &err_), -1); \
		assert_int_equal(err_.code, KP_RESOURCE_EXHAUSTED);         \
		assert_string_equal(err_.msg, (want));                      \
	} while (0)

static void test_bytes(void **state)
{
	(void)state;
	struct kp_wire_limits l = KP_WIRE_LIMITS;
	struct kp_err err;
	kp_str bytes = BYTES(0x0a, 0x01, 'e', 0x10, 0x05);
	l.max_bytes = 5;
	assert_int_equal(check(endpoint, bytes, &l, &err), 0);
	l.max_bytes = 4;
	assert_over(endpoint, bytes, &l,
		"read `kelpie.control.v1.Endpoint`: 5 bytes, at most 4 allowed");
}

/* Fields of all levels, those that are not known, and each element of a list: what costs memory. */
static void test_fields(void **state)
{
	(void)state;
	struct kp_wire_limits l = KP_WIRE_LIMITS;
	struct kp_err err;
	const struct {
		const ProtobufCMessageDescriptor *d;
		kp_str bytes;
		size_t n;
	} cases[] = {
		{ endpoint, BYTES(0x0a, 0x00, 0x10, 0x05, 0x78, 0x01, 0x78, 0x01), 4 },
		{ operator_message, BYTES(0x12, 0x06, 0x0a, 0x04, 0x08, 0x01, 0x10, 0x01), 4 },
		{ chunk, BYTES(0x0a, 0x05, 1, 2, 0x83, 0x01, 4), 5 },
		{ logprobs, BYTES(0x0a, 0x08, 0, 0, 0, 0, 0, 0, 0, 0), 3 },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		l.max_fields = cases[i].n;
		assert_int_equal(check(cases[i].d, cases[i].bytes, &l, &err), 0);
		l.max_fields--;
		assert_int_equal(check(cases[i].d, cases[i].bytes, &l, &err), -1);
		assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
		assert_non_null(strstr(err.msg, ": too many fields"));
	}
}

static void test_depth(void **state)
{
	(void)state;
	struct kp_wire_limits l = KP_WIRE_LIMITS;
	struct kp_err err;
	/* OperatorMessage, Program, Item, ItemKey. */
	kp_str bytes = BYTES(0x12, 0x06, 0x1a, 0x04, 0x0a, 0x02, 0x08, 0x01);
	l.max_depth = 4;
	assert_int_equal(check(operator_message, bytes, &l, &err), 0);
	l.max_depth = 3;
	assert_over(operator_message, bytes, &l,
		"read `kelpie.control.v1.ItemKey`: messages are nested too deep");
}

/* protobuf-c has no limit of its own: a message that may contain itself, a hundred thousand times. */
static void test_recursion(void **state)
{
	(void)state;
	static ProtobufCMessageDescriptor self;
	static const ProtobufCFieldDescriptor field = { .name = "self",
		.id = 1,
		.label = PROTOBUF_C_LABEL_NONE,
		.type = PROTOBUF_C_TYPE_MESSAGE,
		.descriptor = &self };
	static const ProtobufCIntRange ranges[] = { { 1, 0 }, { 0, 1 } };
	enum { LEVELS = 100000 };
	self = (ProtobufCMessageDescriptor){ .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
		.name = "Self",
		.n_fields = 1,
		.fields = &field,
		.n_field_ranges = 1,
		.field_ranges = ranges };
	uint8_t *p = kp_xmalloc(LEVELS * 5), *begin = p + (size_t)LEVELS * 5;
	for (size_t n = 0; n < LEVELS; n++) { /* from the inside */
		size_t size = (size_t)(p + (size_t)LEVELS * 5 - begin);
		begin -= kp_wire_varint_size(size);
		(void)kp_wire_put_varint(begin, size);
		*--begin = 0x0a;
	}
	kp_str bytes = kp_str_n((char *)begin, (size_t)(p + (size_t)LEVELS * 5 - begin));
	assert_over(&self, bytes, &KP_WIRE_LIMITS, "read `Self`: messages are nested too deep");
	kp_mem_free(p);
}

/* --- unpacking --- */

static void test_unpack(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 16);
	struct kp_err err = KP_ERR_INIT;
	char bytes[] = "\x0a\x06"
		       "ns/one"
		       "\x10\x07\x1a\x05"
		       "h:123";
	Kelpie__Control__V1__Endpoint *e = kp_wire_unpack(
		endpoint, kp_str_n(bytes, sizeof(bytes) - 1), &KP_WIRE_LIMITS, a, &err);
	assert_non_null(e);
	memset(bytes, 'x', sizeof(bytes)); /* it points into the arena alone */
	assert_string_equal(e->engine, "ns/one");
	assert_int_equal(e->index, 7);
	assert_string_equal(e->address, "h:123");
	assert_string_equal(e->owner, "");
}

static void test_unpack_refused(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 16);
	struct kp_err err = KP_ERR_INIT;
	assert_null(kp_wire_unpack(endpoint, BYTES(0x08, 0x01), &KP_WIRE_LIMITS, a, &err));
	assert_int_equal(err.code, KP_INTERNAL);
	/* A key of six bytes: the check reads it, protobuf-c does not. */
	err = KP_ERR_INIT;
	assert_null(kp_wire_unpack(endpoint, BYTES(0x90, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01),
		&KP_WIRE_LIMITS, a, &err));
	assert_int_equal(err.code, KP_INTERNAL);
	assert_string_equal(err.msg, "read `kelpie.control.v1.Endpoint`: not valid protobuf");
}

/* An arena that is full at any of its allocations is an error, never a half message. */
static void test_arena_full(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	for (size_t i = 0; i < 100; i++) {
		size_t program = kp_wire_begin(&b, 2), item = kp_wire_begin(&b, 3),
		       key = kp_wire_begin(&b, 1);
		kp_wire_add_u64(&b, 1, 1);
		kp_wire_add_str(&b, 2, KP_S("default/demo"));
		kp_wire_end(&b, key);
		kp_wire_add_str(&b, 2, KP_S("twenty bytes or more of value"));
		kp_wire_end(&b, item);
		kp_wire_end(&b, program);
	}
	size_t failed = 0, taken = 0;
	for (size_t max = 64; max <= 64 << 10; max += 64) {
		struct kp_arena *a = kp_arena_create(max);
		struct kp_err err = KP_ERR_INIT;
		if (kp_wire_unpack(operator_message, kp_buf_str(&b), &KP_WIRE_LIMITS, a, &err)) {
			taken++;
		} else {
			failed++;
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
			assert_int_equal(taken, 0);
		}
		kp_arena_destroy(a);
	}
	assert_true(failed > 10);
	assert_true(taken > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_packed_refused),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_unpack),
		cmocka_unit_test(test_unpack_refused),
		cmocka_unit_test(test_arena_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
