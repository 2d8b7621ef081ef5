/* Messages: what is written is read back, by protobuf-c too; what is refused names its field. */
#include "tests/unit/control/common.h"
#include "wire/unpack.h"
#include "wire/wire.h"
#include "kelpie/control/v1/control.pb-c.h"

static struct kp_revision revision(uint64_t epoch, uint64_t n, uint8_t fill)
{
	struct kp_revision r = { .is_set = true, .epoch = epoch, .n = n };
	memset(r.hash, fill, sizeof(r.hash));
	return r;
}

/* Packs what protobuf-c makes of it: the same bytes. */
static void assert_canonical(const ProtobufCMessageDescriptor *d, kp_str bytes)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	const struct kp_wire_limits limits = KP_WIRE_LIMITS;
	ProtobufCMessage *m = kp_wire_unpack(d, bytes, &limits, arena, &err);
	assert_non_null(m);
	uint8_t *again = kp_xmalloc(protobuf_c_message_get_packed_size(m));
	assert_str(kp_str_n(again, protobuf_c_message_pack(m, again)), bytes);
	kp_mem_free(again);
}

static struct kp_gateway_message to_operator(
	const struct kp_gateway_message *m, struct kp_arena *arena)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_gateway_message back;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_CONTROL_TO_OPERATOR_MAX);
	kp_control_write_to_operator(&b, m);
	assert_int_equal(kp_buf_finish(&b, "message", &err), 0);
	assert_canonical(&kelpie__control__v1__gateway_message__descriptor, kp_buf_str(&b));
	int r = kp_control_read_to_operator(kp_buf_str(&b), arena, &back, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	assert_int_equal(back.type, m->type);
	return back;
}
static struct kp_operator_message to_gateway(
	const struct kp_operator_message *m, struct kp_arena *arena)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_operator_message back;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_CONTROL_TO_GATEWAY_MAX);
	kp_control_write_to_gateway(&b, m);
	assert_int_equal(kp_buf_finish(&b, "message", &err), 0);
	assert_canonical(&kelpie__control__v1__operator_message__descriptor, kp_buf_str(&b));
	int r = kp_control_read_to_gateway(kp_buf_str(&b), arena, &back, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	assert_int_equal(back.type, m->type);
	return back;
}

static void test_hello(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	const kp_str features[] = { KP_S("drain"), KP_S("shm") },
		     own[] = { KP_S("default/demo"), KP_S("default/demo/1") };
	const struct kp_program_gateway known[] = {
		{ KP_S("gw-b"), KP_S("10.0.0.2:1"), KP_S(""), own, 1, false },
		{ KP_S("gw-c"), KP_S(""), KP_S("n"), NULL, 0, false },
	};
	const struct kp_gateway_message m = { .type = KP_GATEWAY_HELLO,
		.hello = { 1, features, 2, KP_S("gw-a"), KP_S("default"), KP_S("10.0.0.1:1"),
			KP_S("node-1"), KP_S("127.0.0.1:9"), KP_S("0.2"), own, 2,
			revision(7, UINT64_MAX, 3), 9, 12345, known, 2 } };
	const struct kp_hello h = to_operator(&m, arena).hello;
	assert_int_equal(h.protocol, 1);
	assert_int_equal(h.n_features, 2);
	assert_str_lit(h.features[1], "shm");
	assert_str_lit(h.id, "gw-a");
	assert_str_lit(h.ns, "default");
	assert_str_lit(h.peer, "10.0.0.1:1");
	assert_str_lit(h.node, "node-1");
	assert_str_lit(h.admin, "127.0.0.1:9");
	assert_str_lit(h.version, "0.2");
	assert_int_equal(h.n_own, 2);
	assert_str_lit(h.own[1], "default/demo/1");
	assert_true(h.revision.is_set);
	assert_memory_equal(&h.revision, &m.hello.revision, sizeof(h.revision));
	assert_int_equal(h.epoch_seen, 9);
	assert_int_equal(h.epoch_age_ms, 12345);
	assert_int_equal(h.n_known, 2);
	assert_str_lit(h.known[0].id, "gw-b");
	assert_str_lit(h.known[0].own[0], "default/demo");
	assert_str_lit(h.known[1].node, "n");
	char text[KP_REVISION_TEXT_MAX];
	assert_string_equal(
		kp_revision_text(&h.revision, text), "7.18446744073709551615 (030303030303)");
	/* Nothing that need not be there. */
	const struct kp_gateway_message least = { .type = KP_GATEWAY_HELLO,
		.hello = { .id = KP_S("a"), .ns = KP_S("b") } };
	const struct kp_hello back = to_operator(&least, arena).hello;
	assert_false(back.revision.is_set);
	assert_string_equal(kp_revision_text(&back.revision, text), "none");
}

static void test_answers(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	struct kp_gateway_message m = { .type = KP_GATEWAY_ACK, .ack = revision(1, 2, 4) };
	struct kp_gateway_message back = to_operator(&m, arena);
	assert_memory_equal(&back.ack, &m.ack, sizeof(m.ack));
	m = (struct kp_gateway_message){ .type = KP_GATEWAY_NACK,
		.nack = {
			revision(1, 3, 5), KP_S(KP_NACK_STALE_EPOCH), KP_S("take program ...") } };
	back = to_operator(&m, arena);
	assert_str_lit(back.nack.reason, "stale_epoch");
	assert_str_lit(back.nack.message, "take program ...");
	assert_int_equal(back.nack.revision.n, 3);
	const struct kp_endpoint_report e[] = {
		{ KP_S("default/demo"), KP_S("127.0.0.1:1"), KP_S("down"), KP_S("refused"),
			KP_S("m"), 1, 2, 3, 0.25F, true, KP_S("line 1") },
		{ .state = KP_S("routable") },
	};
	m = (struct kp_gateway_message){ .type = KP_GATEWAY_REPORT,
		.report = { e, 2, true, 4, 5, 6, 7, KP_S("disk full") } };
	back = to_operator(&m, arena);
	assert_int_equal(back.report.n_endpoints, 2);
	assert_str_lit(back.report.endpoints[0].engine, "default/demo");
	assert_str_lit(back.report.endpoints[0].address, "127.0.0.1:1");
	assert_str_lit(back.report.endpoints[0].reason, "refused");
	assert_str_lit(back.report.endpoints[0].model, "m");
	assert_int_equal(back.report.endpoints[0].in_flight, 1);
	assert_int_equal(back.report.endpoints[0].running, 2);
	assert_int_equal(back.report.endpoints[0].waiting, 3);
	assert_true(back.report.endpoints[0].kv_usage == 0.25F);
	assert_true(back.report.endpoints[0].tokenizer_loaded);
	assert_str_lit(back.report.endpoints[0].tokenizer_error, "line 1");
	assert_str_lit(back.report.endpoints[1].state, "routable");
	assert_true(back.report.draining);
	assert_int_equal(back.report.in_flight, 4);
	assert_int_equal(back.report.requests, 5);
	assert_int_equal(back.report.errors, 6);
	assert_int_equal(back.report.tokens, 7);
	assert_str_lit(back.report.state_error, "disk full");
}

static void test_from_operator(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	const kp_str features[] = { KP_S("x") };
	struct kp_operator_message m = { .type = KP_OPERATOR_WELCOME,
		.welcome = { 1, features, 1, KP_S("op"), 1764445926123, 1000 } };
	struct kp_operator_message back = to_gateway(&m, arena);
	assert_int_equal(back.welcome.protocol, 1);
	assert_str_lit(back.welcome.features[0], "x");
	assert_str_lit(back.welcome.id, "op");
	assert_int_equal(back.welcome.epoch, 1764445926123);
	assert_int_equal(back.welcome.report_interval_ms, 1000);
	const struct kp_item up[] = { { 1, KP_S("default/a"), KP_S("\x00\xff") },
		{ 77, KP_S("new"), KP_S("") } };
	const struct kp_item gone[] = { { .kind = 3, .key = KP_S("default/a/1") } };
	m = (struct kp_operator_message){ .type = KP_OPERATOR_PROGRAM,
		.program = { revision(5, 6, 7), revision(5, 5, 8), { up, 2, gone, 1 } } };
	back = to_gateway(&m, arena);
	assert_memory_equal(&back.program.base, &m.program.base, sizeof(m.program.base));
	assert_int_equal(back.program.delta.n_upserts, 2);
	assert_str(back.program.delta.upserts[0].value, up[0].value);
	assert_int_equal(back.program.delta.upserts[1].kind, 77);
	assert_int_equal(back.program.delta.n_removes, 1);
	assert_str_lit(back.program.delta.removes[0].key, "default/a/1");
}

/* --- what is refused --- */

static kp_str message_of(struct kp_buf *b, uint32_t body, kp_str content)
{
	kp_buf_reset(b);
	kp_wire_add_str(b, body, content);
	return kp_buf_str(b);
}

static void refused_by_operator(uint32_t body, kp_str content, const char *want)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	KP_AUTO(buf) struct kp_buf b;
	struct kp_gateway_message m;
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&b, 16 << 20);
	assert_int_equal(
		kp_control_read_to_operator(message_of(&b, body, content), arena, &m, &err), -1);
	assert_string_equal(err.msg, want);
	assert_true(err.code == KP_INVALID_ARGUMENT || err.code == KP_RESOURCE_EXHAUSTED);
}
static void refused_by_gateway(uint32_t body, kp_str content, const char *want)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	KP_AUTO(buf) struct kp_buf b;
	struct kp_operator_message m;
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&b, 16 << 20);
	assert_int_equal(
		kp_control_read_to_gateway(message_of(&b, body, content), arena, &m, &err), -1);
	assert_string_equal(err.msg, want);
	assert_true(err.code == KP_INVALID_ARGUMENT || err.code == KP_RESOURCE_EXHAUSTED);
}

static void test_refused(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 16 << 20);
	static char long_text[5000];
	memset(long_text, 'x', sizeof(long_text));
	refused_by_operator(1, KP_S(""), "read `hello.id`: must be set");
	refused_by_operator(1, KP_S("\x1a\x01g"), "read `hello.namespace`: must be set");
	kp_wire_add_str(&b, 3, kp_str_n(long_text, 513));
	refused_by_operator(1, kp_buf_str(&b), "read `hello.id`: 513 bytes, at most 512 allowed");
	kp_buf_reset(&b);
	for (int i = 0; i < 1025; i++) {
		kp_wire_add_str(&b, 5, KP_S("a/b"));
	}
	refused_by_operator(
		1, kp_buf_str(&b), "read `hello.own`: 1025 of them, at most 1024 allowed");
	refused_by_operator(1, KP_S("\x1a\x01g\x22\x01n\x52\x03\x1a\x01h"),
		"read `hello.revision`: the hash must have 32 bytes");
	refused_by_operator(2, KP_S(""), "read `ack.revision`: must be set");
	refused_by_operator(3, KP_S("\x12\x01r"), "read `nack.revision`: must be set");
	kp_buf_reset(&b);
	kp_wire_add_str(&b, 7, kp_str_n(long_text, 4097));
	refused_by_operator(
		4, kp_buf_str(&b), "read `report.state_error`: 4097 bytes, at most 4096 allowed");
	refused_by_operator(4, KP_S("\x0a\x03\x1a\x01\xff"),
		"read `kelpie.control.v1.EndpointReport`: a string is not valid UTF-8");
	refused_by_operator(
		4, KP_S("\x0a\x05\x1a"), "read `kelpie.control.v1.Report`: not valid protobuf");
	refused_by_operator(
		1, KP_S("\x0a\x01x"), "read `kelpie.control.v1.Hello`: a field has the wrong type");
	refused_by_gateway(2, KP_S(""), "read `program.revision`: must be set");
	kp_buf_reset(&b);
	kp_wire_add_str(&b, 3, kp_str_n(long_text, 32));
	KP_AUTO(buf) struct kp_buf p;
	kp_buf_init(&p, 1 << 20);
	kp_wire_add_str(&p, 1, kp_buf_str(&b));
	size_t start = p.n;
	kp_wire_add_str(&p, 3, KP_S("\x12\x01v"));
	refused_by_gateway(2, kp_buf_str(&p), "read `program.upsert.key`: must be set");
	p.n = start;
	kp_wire_add_str(&p, 4, KP_S("\x08\x01\x12\x01k"));
	refused_by_gateway(
		2, kp_buf_str(&p), "read `program.remove`: there is no base to remove from");
	p.n = start;
	kp_wire_add_str(&p, 2, KP_S(""));
	refused_by_gateway(
		2, kp_buf_str(&p), "read `program.base_revision`: the hash must have 32 bytes");
}

/* Deep nesting, which protobuf-c would follow until the stack ends; a body and fields of tomorrow; NaN. */
static void test_odd(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	struct kp_gateway_message m;
	struct kp_operator_message o;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_control_read_to_operator(KP_S("\x7a\x03new"), arena, &m, &err), 0);
	assert_int_equal(m.type, KP_GATEWAY_NONE);
	assert_int_equal(kp_control_read_to_gateway(KP_S(""), arena, &o, &err), 0);
	assert_int_equal(o.type, KP_OPERATOR_NONE);
	const kp_str nan = KP_S("\x22\x07\x0a\x05\x45\x00\x00\xc0\x7f");
	assert_int_equal(kp_control_read_to_operator(nan, arena, &m, &err), 0);
	assert_int_equal(m.report.n_endpoints, 1);
	assert_true(m.report.endpoints[0].kv_usage == 0);
	static char large[KP_CONTROL_TO_OPERATOR_MAX + 1];
	assert_int_equal(
		kp_control_read_to_operator(kp_str_n(large, sizeof(large)), arena, &m, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg,
		"read `kelpie.control.v1.GatewayMessage`: 8388609 bytes, at most 8388608 allowed");
	/* A small arena: refused, nothing is written. */
	KP_AUTO(arena) struct kp_arena *small = kp_arena_create(64);
	assert_int_equal(kp_control_read_to_operator(nan, small, &m, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_from_operator),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_odd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
