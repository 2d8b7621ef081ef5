/* Items: what a program becomes and what becomes of it again, the hash, delta and what is refused. */
#include "tests/unit/control/common.h"
#include "control/message.h"
#include "wire/unpack.h"
#include "wire/wire.h"
#include "kelpie/control/v1/control.pb-c.h"

#include <openssl/sha.h>

static const kp_str own_demo[] = { KP_S_INIT("default/demo") };
static const kp_str own_one[] = { KP_S_INIT("default/demo/1"), KP_S_INIT("default/demo-b") };
static const struct kp_program_gateway two[] = {
	{ KP_S_INIT("gw-b"), KP_S_INIT("10.0.0.2:8443"), KP_S_INIT("node-2"), own_one, 2, false },
	{ KP_S_INIT("gw-a"), KP_S_INIT("10.0.0.1:8443"), KP_S_INIT(""), own_demo, 1, false },
};

static void test_round_trip(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *items = test_items(TWO_ENGINES, two, 2), *again = NULL;
	struct kp_program *p = NULL;
	assert_int_equal(items->n, 2 + 2 + 4 + 2);
	assert_int_equal(kp_items_to_program(items, KP_S("default"), &p, &err), 0);
	assert_int_equal(p->n_pools, 2);
	assert_str_lit(p->pools[0].name, "default/a");
	assert_int_equal(p->pools[1].target_ports[0], 8081);
	assert_int_equal(p->n_engines, 2);
	const struct kp_program_engine *e = &p->engines[0];
	assert_str_lit(e->name, "default/demo");
	assert_str_lit(e->pool, "default/a");
	assert_str_lit(e->model, "m");
	assert_int_equal(e->n_aliases, 2);
	assert_str_lit(e->aliases[1], "z");
	assert_int_equal(e->protocol, KP_PROTOCOL_VLLM);
	assert_int_equal(e->tokenizer, KP_TOKENIZER_ENGINE);
	assert_int_equal(e->n_endpoints, 3); /* in the manifest's order */
	assert_str_lit(e->endpoints[0].address, "127.0.0.1:9");
	assert_str_lit(e->endpoints[1].address, "[::1]:2");
	assert_str_lit(e->endpoints[2].address, "127.0.0.1:1");
	assert_str_lit(e->endpoints[0].owner->id, "gw-a");
	assert_str_lit(e->endpoints[1].owner->id, "gw-b");
	e = &p->engines[1];
	assert_int_equal(e->protocol, KP_PROTOCOL_SGLANG);
	assert_int_equal(e->tokenizer, KP_TOKENIZER_PATH);
	assert_str_lit(e->tokenizer_path, "/models/m");
	assert_str_lit(e->endpoints[0].owner->id, "gw-b");
	assert_int_equal(p->n_gateways, 2);
	assert_str_lit(p->gateways[0].id, "gw-a");
	assert_str_lit(p->gateways[1].peer, "10.0.0.2:8443");
	assert_str_lit(p->gateways[1].node, "node-2");
	assert_int_equal(p->gateways[1].n_own, 2);
	assert_str_lit(p->gateways[1].own[1], "default/demo-b");
	assert_int_equal(kp_items_from_program(p, &again, &err), 0);
	assert_true(kp_items_same(items, again));
	kp_items_unref(items);
	kp_items_unref(again);
	kp_program_destroy(p);
}

/* The bytes are those that protobuf-c would write, and the hash is what docs/control.md says. */
static void test_canonical(void **state)
{
	(void)state;
	static const ProtobufCMessageDescriptor *const of[] = {
		NULL,
		&kelpie__control__v1__pool__descriptor,
		&kelpie__control__v1__engine__descriptor,
		&kelpie__control__v1__endpoint__descriptor,
		&kelpie__control__v1__gateway__descriptor,
	};
	struct kp_items *items = test_items(TWO_ENGINES, two, 2);
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf all;
	struct kp_err err = KP_ERR_INIT;
	struct kp_wire_limits limits = KP_WIRE_LIMITS;
	uint8_t hash[KP_HASH_BYTES], bytes[4096];
	kp_buf_init(&all, 1 << 20);
	for (size_t i = 0; i < items->n; i++) {
		const struct kp_item *item = &items->p[i];
		ProtobufCMessage *m =
			kp_wire_unpack(of[item->kind], item->value, &limits, arena, &err);
		assert_non_null(m);
		assert_true(protobuf_c_message_get_packed_size(m) <= sizeof(bytes));
		assert_str(kp_str_n(bytes, protobuf_c_message_pack(m, bytes)), item->value);
		for (int k = 0; k < 3; k++) {
			uint32_t v = k == 0   ? item->kind
				     : k == 1 ? (uint32_t)item->key.n
					      : (uint32_t)item->value.n;
			kp_buf_addc(&all, (char)(v >> 24));
			kp_buf_addc(&all, (char)(v >> 16));
			kp_buf_addc(&all, (char)(v >> 8));
			kp_buf_addc(&all, (char)v);
			kp_buf_add(&all, k == 1 ? item->key : k == 2 ? item->value : KP_S(""));
		}
	}
	SHA256((const uint8_t *)all.p, all.n, hash);
	assert_memory_equal(hash, items->hash, KP_HASH_BYTES);
	kp_items_unref(items);
	assert_int_equal(kp_items_create(NULL, 0, &items, &err), 0);
	char text[KP_HASH_TEXT_MAX];
	assert_string_equal(kp_hash_text(items->hash, 64, text),
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	kp_items_unref(items);
}

static void test_delta(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	struct kp_items *from = test_items(TWO_ENGINES, two, 2), *got = NULL;
	struct kp_items *to = test_items(
		POOL("a", "8080") ENGINE("demo", "a", "{name: m, aliases: [x]}",
			"  engine: {type: vllm}\n  endpoints: [{address: 127.0.0.1, port: 9}]"),
		two, 2);
	struct kp_items_delta d;
	assert_int_equal(kp_items_diff(from, to, arena, &d, &err), 0);
	assert_int_equal(d.n_upserts, 1); /* the engine's aliases; the endpoint stays as it is */
	assert_str_lit(d.upserts[0].key, "default/demo");
	assert_int_equal(d.n_removes, 5);
	assert_int_equal(kp_items_apply(from, &d, &got, &err), 0);
	assert_true(kp_items_same(got, to));
	kp_items_unref(got);
	/* Not what it was made for. */
	assert_int_equal(kp_items_apply(to, &d, &got, &err), -1);
	assert_string_equal(
		err.msg, "read items: pool `default/b` is to be removed, but is not there");
	struct kp_item twice[] = { from->p[0], from->p[0] };
	struct kp_items_delta odd = { .upserts = twice, .n_upserts = 2 };
	assert_int_equal(kp_items_apply(from, &odd, &got, &err), -1);
	assert_string_equal(err.msg, "read items: pool `default/a` is there twice");
	odd = (struct kp_items_delta){
		.upserts = twice, .n_upserts = 1, .removes = twice, .n_removes = 1
	};
	assert_int_equal(kp_items_apply(from, &odd, &got, &err), -1);
	assert_string_equal(err.msg, "read items: pool `default/a` is both set and removed");
	kp_items_unref(from);
	kp_items_unref(to);
}

static void test_set_limits(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *s;
	static char big[KP_ITEM_VALUE_MAX + 1];
	const struct kp_item same[] = { { 3, KP_S("k"), KP_S("1") }, { 4, KP_S("k"), KP_S("1") },
		{ 3, KP_S("k"), KP_S("2") } };
	assert_int_equal(kp_items_create(same, 3, &s, &err), -1);
	assert_string_equal(err.msg, "read items: endpoint `k` is there twice");
	const struct kp_item no_key = { 9, KP_S(""), KP_S("") };
	assert_int_equal(kp_items_create(&no_key, 1, &s, &err), -1);
	assert_string_equal(
		err.msg, "read items: the key of a kind 9 has 0 bytes, 1 to 1024 allowed");
	const struct kp_item large = { 1, KP_S("k"), { big, sizeof(big) } };
	assert_int_equal(kp_items_create(&large, 1, &s, &err), -1);
	assert_string_equal(err.msg, "read items: pool `k` is too large");
	const size_t many = KP_ITEMS_BYTES_MAX / KP_ITEM_VALUE_MAX + 1;
	struct kp_item *items = kp_xcalloc(many, sizeof(*items));
	char(*keys)[16] = kp_xcalloc(many, sizeof(*keys));
	for (size_t i = 0; i < many; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%zu", i);
		items[i] = (struct kp_item){ 1, kp_str_c(keys[i]), { big, KP_ITEM_VALUE_MAX } };
	}
	assert_int_equal(kp_items_create(items, many, &s, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_int_equal(kp_items_create(items, KP_ITEMS_MAX + 1, &s, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "read items: 100001 of them, at most 100000 allowed");
	kp_mem_free(items);
	kp_mem_free(keys);
}

/* One item of the good set is replaced (or added); each must be refused by name. */
static kp_str hex(const char *text, char *out)
{
	size_t n = strlen(text) / 2;
	for (size_t i = 0; i < n; i++) {
		uint64_t v = 0;
		(void)kp_str_hex64(kp_str_n(text + 2 * i, 2), &v);
		out[i] = (char)v;
	}
	return kp_str_n(out, n);
}

enum { STR = 1, UINT = 2 };
struct field {
	uint32_t number;
	int type;
	const char *s;
	uint64_t v;
};
#define F_STR(n, z)          \
	{                    \
		n, STR, z, 0 \
	}
#define F_INT(n, i)              \
	{                        \
		n, UINT, NULL, i \
	}

static kp_str value(const struct field *f, struct kp_arena *arena)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_buf b;
	kp_str r = KP_STR_NULL;
	kp_buf_init(&b, 1 << 20);
	for (; f->number; f++) {
		if (f->type == STR) {
			kp_wire_add_str(&b, f->number, kp_str_c(f->s));
		} else {
			kp_wire_add_u64(&b, f->number, f->v);
		}
	}
	assert_int_equal(kp_arena_dup(arena, kp_buf_str(&b), &r, &err), 0);
	kp_buf_fini(&b);
	return r;
}

static const struct {
	uint32_t kind;
	const char *key;
	struct field fields[8];
	enum kp_code code;
	const char *msg;
} refused[] = {
	{ 9, "k", { F_STR(1, "x") }, KP_UNIMPLEMENTED, "read kind 9 `k`: an unknown kind of item" },
	{ 0, "k", { F_STR(1, "x") }, KP_INVALID_ARGUMENT, "read none `k`: an item has no kind" },
	{ 1, "default/a", { F_STR(1, "default/x") }, KP_INVALID_ARGUMENT,
		"read pool `default/a`: the name is not the key, or not of this namespace" },
	{ 1, "other/a", { F_STR(1, "other/a") }, KP_INVALID_ARGUMENT,
		"read pool `other/a`: the name is not the key, or not of this namespace" },
	{ 1, "default/a", { F_STR(1, "default/a"), F_INT(2, 65536) }, KP_INVALID_ARGUMENT,
		"read pool `default/a`: a target port is not a number from 1 to 65535" },
	{ 1, "default/a", { F_STR(1, "default/a"), F_INT(2, 0) }, KP_INVALID_ARGUMENT,
		"read pool `default/a`: a target port is not a number from 1 to 65535" },
	{ 1, "default/a", { F_INT(1, 7) }, KP_INVALID_ARGUMENT,
		"read pool `default/a`: read `kelpie.control.v1.Pool`: a field has the wrong type" },
	{ 1, "default/a", { F_STR(1, "default/\xff") }, KP_INVALID_ARGUMENT,
		"read pool `default/a`: read `kelpie.control.v1.Pool`: a string is not valid UTF-8" },
	{ 2, "default/demo", { F_STR(1, "default/demo"), F_STR(2, "default/c"), F_STR(3, "m") },
		KP_INVALID_ARGUMENT, "read engine `default/demo`: its pool is not there" },
	{ 2, "default/demo", { F_STR(1, "default/demo"), F_STR(2, "default/a") },
		KP_INVALID_ARGUMENT,
		"read engine `default/demo`: a model's name is empty, too long or not printable" },
	{ 2, "default/demo",
		{ F_STR(1, "default/demo"), F_STR(2, "default/a"), F_STR(3, "m"), F_INT(5, 2) },
		KP_UNIMPLEMENTED, "read engine `default/demo`: an unknown protocol" },
	{ 2, "default/demo",
		{ F_STR(1, "default/demo"), F_STR(2, "default/a"), F_STR(3, "m"),
			F_INT(5, UINT64_MAX) },
		KP_UNIMPLEMENTED, "read engine `default/demo`: an unknown protocol" },
	{ 2, "default/demo",
		{ F_STR(1, "default/demo"), F_STR(2, "default/a"), F_STR(3, "m"), F_INT(6, 7) },
		KP_UNIMPLEMENTED,
		"read engine `default/demo`: an unknown source of its tokenizer" },
	{ 2, "default/demo",
		{ F_STR(1, "default/demo"), F_STR(2, "default/a"), F_STR(3, "m"), F_INT(6, 1),
			F_STR(7, "relative") },
		KP_INVALID_ARGUMENT,
		"read engine `default/demo`: the path of its tokenizer does not fit its source" },
	{ 2, "default/demo",
		{ F_STR(1, "default/demo"), F_STR(2, "default/a"), F_STR(3, "m"), F_STR(7, "/x") },
		KP_INVALID_ARGUMENT,
		"read engine `default/demo`: the path of its tokenizer does not fit its source" },
	{ 2, "default/demo", { F_STR(1, "default/demo"), F_STR(2, "default/a"), F_STR(3, "other") },
		KP_INVALID_ARGUMENT,
		"read engine `default/demo-b`: `other` is already the name of a model of pool `default/a`" },
	{ 3, "default/demo/127.0.0.1:9", { F_STR(1, "default/demo"), F_STR(3, "127.0.0.1:8") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/127.0.0.1:9`: engine and address are not the key" },
	{ 3, "default/demo/localhost", { F_STR(1, "default/demo"), F_STR(3, "localhost") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/localhost`: the address does not parse" },
	{ 3, "default/demo/localhost:0", { F_STR(1, "default/demo"), F_STR(3, "localhost:0") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/localhost:0`: the address does not parse" },
	{ 3, "default/no/localhost:1", { F_STR(1, "default/no"), F_STR(3, "localhost:1") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/no/localhost:1`: its engine is not there" },
	{ 3, "default/demo/127.0.0.1:9",
		{ F_STR(1, "default/demo"), F_STR(3, "127.0.0.1:9"), F_STR(4, "gw-c") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/127.0.0.1:9`: its owner is not a gateway of the program" },
	{ 3, "default/demo/127.0.0.1:9",
		{ F_STR(1, "default/demo"), F_INT(2, 2), F_STR(3, "127.0.0.1:9") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/127.0.0.1:9`: index 2 is there twice" },
	{ 3, "default/demo/127.0.0.1:9",
		{ F_STR(1, "default/demo"), F_STR(3, "127.0.0.1:9"), F_STR(5, "here"),
			F_STR(6, "u/0") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/127.0.0.1:9`: the local address does not parse" },
	{ 3, "default/demo/127.0.0.1:9",
		{ F_STR(1, "default/demo"), F_STR(3, "127.0.0.1:9"), F_STR(6, "u\n") },
		KP_INVALID_ARGUMENT,
		"read endpoint `default/demo/127.0.0.1:9`: the instance is too long or not printable" },
	{ 4, "gw-a", { F_STR(1, "gw-b") }, KP_INVALID_ARGUMENT,
		"read gateway `gw-a`: the id is not the key, or not printable" },
	{ 4, "gw-a", { F_STR(1, "gw-a"), F_STR(2, "nowhere") }, KP_INVALID_ARGUMENT,
		"read gateway `gw-a`: peer is not an address" },
	{ 4, "gw-a", { F_STR(1, "gw-a"), F_STR(4, "a\nb") }, KP_INVALID_ARGUMENT,
		"read gateway `gw-a`: a claim is too long or not printable" },
};

static void test_refused(void **state)
{
	(void)state;
	struct kp_items *good = test_items(TWO_ENGINES, two, 2);
	for (size_t i = 0; i < KP_LEN(refused); i++) {
		KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
		struct kp_err err = KP_ERR_INIT;
		struct kp_items *s = NULL;
		struct kp_program *p = NULL;
		const struct kp_item item = { refused[i].kind, kp_str_c(refused[i].key),
			value(refused[i].fields, arena) };
		const struct kp_items_delta d = { .upserts = &item, .n_upserts = 1 };
		assert_int_equal(kp_items_apply(good, &d, &s, &err), 0);
		assert_int_equal(kp_items_to_program(s, KP_S("default"), &p, &err), -1);
		assert_string_equal(err.msg, refused[i].msg);
		assert_int_equal(err.code, refused[i].code);
		kp_items_unref(s);
	}
	kp_items_unref(good);
}

/* A value cut anywhere is refused or another value, never a crash; fields that are not known pass. */
static void test_values(void **state)
{
	(void)state;
	struct kp_items *good = test_items(TWO_ENGINES, two, 2), *s = NULL;
	struct kp_program *p = NULL;
	struct kp_err err = KP_ERR_INIT;
	for (size_t i = 0; i < good->n; i++) {
		for (size_t n = 0; n < good->p[i].value.n; n++) {
			struct kp_item item = good->p[i];
			item.value.n = n;
			const struct kp_items_delta d = { .upserts = &item, .n_upserts = 1 };
			assert_int_equal(kp_items_apply(good, &d, &s, &err), 0);
			if (kp_items_to_program(s, KP_S(""), &p, &err) == 0) {
				kp_program_destroy(p);
			}
			kp_items_unref(s);
		}
	}
	char more[64];
	kp_str extra = hex("b206036e6577", more); /* field 102, "new" */
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 10);
	kp_buf_add(&b, good->p[0].value);
	kp_buf_add(&b, extra);
	const struct kp_item item = { good->p[0].kind, good->p[0].key, kp_buf_str(&b) };
	const struct kp_items_delta d = { .upserts = &item, .n_upserts = 1 };
	assert_int_equal(kp_items_apply(good, &d, &s, &err), 0);
	assert_int_equal(kp_items_to_program(s, KP_S("default"), &p, &err), 0);
	assert_false(kp_items_same(s, good));
	kp_program_destroy(p);
	kp_items_unref(s);
	kp_items_unref(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_set_limits),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
