/* Schema tables: each kind of constraint, defaults and nulls, list types, rules, decoding; on a small schema made here. The words and verdicts on
   the real ones are proven against the API server's packages (tests/oracle/api). */
#include "json/jansson.h"
#include "schema/names.h"
#include "schema/schema.h"
#include "tests/test.h"

struct port {
	int32_t number;
	kp_str name;
};
struct thing {
	kp_str text;
	int color;
	int32_t small;
	bool has_small;
	int64_t big;
	bool on, has_on;
	const struct port *port;
	const struct port *ports;
	size_t n_ports;
	const kp_str *words;
	size_t n_words;
	const struct kp_kv *map;
	size_t n_map;
};

static bool small_is_even(const json_t *self)
{
	return json_integer_value(json_object_get(self, "small")) % 2 == 0;
}

static const char *const colors[] = { "red", "green", NULL };
static const char *const keys[] = { "number", "name", NULL };
static const struct kp_schema s_text = { .type = KP_SCHEMA_STRING,
	.c = KP_C_STR,
	.min_length = 2,
	.max_length = 4,
	.pattern = &kp_pattern_printable };
static const struct kp_schema s_plain = {
	.type = KP_SCHEMA_STRING, .c = KP_C_STR, .max_length = -1
};
static const struct kp_schema s_color = {
	.type = KP_SCHEMA_STRING, .c = KP_C_ENUM, .enums = colors, .max_length = -1
};
static const struct kp_schema s_small = { .type = KP_SCHEMA_INTEGER,
	.c = KP_C_I32,
	.has_minimum = true,
	.minimum = -5,
	.has_maximum = true,
	.maximum = 5,
	.max_length = -1 };
static const struct kp_schema s_big = {
	.type = KP_SCHEMA_INTEGER, .c = KP_C_I64, .max_length = -1
};
static const struct kp_schema s_on = {
	.type = KP_SCHEMA_BOOLEAN, .c = KP_C_BOOL, .nullable = true, .max_length = -1
};
static const struct kp_schema_prop port_props[] = {
	{ .name = "number",
		.schema = &s_small,
		.required = true,
		.offset = offsetof(struct port, number) },
	{ .name = "name",
		.schema = &s_plain,
		.default_json = "\"http\"",
		.offset = offsetof(struct port, name) },
};
static const struct kp_schema s_port = { .type = KP_SCHEMA_OBJECT,
	.c = KP_C_STRUCT,
	.c_size = sizeof(struct port),
	.props = port_props,
	.n_props = 2,
	.max_length = -1 };
static const struct kp_schema s_ports = { .type = KP_SCHEMA_ARRAY,
	.c = KP_C_LIST,
	.c_size = sizeof(struct port),
	.items = &s_port,
	.list = KP_SCHEMA_MAP,
	.map_keys = keys,
	.min_length = 1,
	.max_length = 3 };
static const struct kp_schema s_words = { .type = KP_SCHEMA_ARRAY,
	.c = KP_C_LIST,
	.c_size = sizeof(kp_str),
	.items = &s_plain,
	.list = KP_SCHEMA_SET,
	.max_length = 4 };
static const struct kp_schema s_map = { .type = KP_SCHEMA_OBJECT,
	.c = KP_C_MAP,
	.additional = &s_text,
	.min_length = 1,
	.max_length = 2 };
static const struct kp_schema_rule rules[] = {
	{ .name = "even",
		.holds = small_is_even,
		.message = "must be even",
		.field_path = ".small",
		.reason = KP_FIELD_INVALID },
	{ .name = "even",
		.holds = small_is_even,
		.message = "may not be odd",
		.field_path = "",
		.reason = KP_FIELD_FORBIDDEN },
};
#define AT(m) .offset = offsetof(struct thing, m)
#define N(m)  .n_offset = offsetof(struct thing, m)
static const struct kp_schema_prop props[] = {
	{ .name = "text", .schema = &s_text, AT(text) },
	{ .name = "color", .schema = &s_color, .default_json = "\"green\"", AT(color) },
	{ .name = "small", .schema = &s_small, AT(small), N(has_small) },
	{ .name = "big", .schema = &s_big, .required = true, AT(big) },
	{ .name = "on", .schema = &s_on, AT(on), N(has_on) },
	{ .name = "port", .schema = &s_port, .pointer = true, AT(port) },
	{ .name = "ports", .schema = &s_ports, AT(ports), N(n_ports) },
	{ .name = "words", .schema = &s_words, AT(words), N(n_words) },
	{ .name = "map", .schema = &s_map, AT(map), N(n_map) },
};
static const struct kp_schema s_thing = { .type = KP_SCHEMA_OBJECT,
	.c = KP_C_STRUCT,
	.c_size = sizeof(struct thing),
	.props = props,
	.n_props = KP_LEN(props),
	.rules = rules,
	.n_rules = 2,
	.max_length = -1 };

static json_t *parse(const char *text)
{
	json_t *v;
	struct kp_err err;
	if (kp_doc_json(kp_str_c(text), "test", &kp_doc_limits_manifest, &v, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
	return v;
}

/* All that is said about the text, one "path: text" per line, in order. */
static void says(const char *text, const char *want)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf got;
	struct kp_field_errors e;
	struct kp_err err;
	json_t *v = parse(text);
	kp_buf_init(&got, 1 << 20);
	assert_int_equal(kp_field_errors_init(&e, a, 100, &err), 0);
	kp_schema_unknown(&s_thing, v, NULL, &e);
	assert_int_equal(kp_schema_default(&s_thing, v, &err), 0);
	kp_schema_validate(&s_thing, v, &e);
	for (size_t i = 0; i < e.n; i++) {
		kp_buf_printf(&got, "%s: %s\n", e.p[i].path, e.p[i].text);
	}
	assert_int_equal(e.path_n, 0);
	assert_string_equal(kp_buf_cstr(&got), want);
	json_decref(v);
}

static void constraints(void **state)
{
	(void)state;
	says("{\"big\":1}", "");
	says("{}", "big: Required value\n");
	says("{\"big\":null}", "big: Required value\n");
	says("{\"big\":1.0,\"small\":-4.0}", "");
	says("{\"big\":1.5}",
		"big: Invalid value: \"number\": must be of type integer: \"number\"\n");
	says("{\"big\":9007199254740993.0}",
		"big: Invalid value: \"number\": must be of type integer: \"number\"\n");
	says("{\"big\":\"1\"}",
		"big: Invalid value: \"string\": must be of type integer: \"string\"\n");
	says("{\"big\":1,\"small\":6}",
		"small: Invalid value: 6: should be less than or equal to 5\n");
	says("{\"big\":1,\"small\":-6}",
		"small: Invalid value: -6: should be greater than or equal to -5\n");
	says("{\"big\":1,\"text\":\"a\"}",
		"text: Invalid value: \"a\": should be at least 2 chars long\n");
	says("{\"big\":1,\"text\":\"abcde\"}", "text: Too long: may not be more than 4 bytes\n");
	says("{\"big\":1,\"text\":\"éé\"}",
		"text: Invalid value: \"éé\": should match '^[!-~]+$'\n");
	says("{\"big\":1,\"color\":\"blue\"}",
		"color: Unsupported value: \"blue\": supported values: \"red\", \"green\"\n");
	says("{\"big\":1,\"color\":[1]}",
		"color: Invalid value: \"array\": must be of type string: \"array\"\n"
		"color: Unsupported value: [1]: supported values: \"red\", \"green\"\n");
	says("{\"big\":1,\"on\":0}",
		"on: Invalid value: \"integer\": must be of type boolean: \"integer\"\n");
	says("{\"big\":1,\"on\":null,\"text\":null,\"color\":null}", "");
	says("{\"big\":1,\"ports\":[]}", "ports: Invalid value: 0: should have at least 1 items\n");
	says("{\"big\":1,\"ports\":[{\"number\":1},{\"number\":2},{\"number\":3},{\"number\":4}]}",
		"ports: Too many: 4: must have at most 3 items\n");
	says("{\"big\":1,\"ports\":[null]}",
		"ports[0]: Invalid value: \"null\": must be of type object: \"null\"\n");
	says("{\"big\":1,\"port\":{}}", "port.number: Required value\n");
	says("{\"big\":1,\"map\":{}}",
		"map: Invalid value: 0: should have at least 1 properties\n");
	says("{\"big\":1,\"map\":{\"a\":\"bc\",\"b\":\"cd\",\"c\":\"de\"}}",
		"map: Too many: 3: must have at most 2 items\n");
	says("{\"big\":1,\"map\":{\"a.b\":true}}",
		"map.a.b: Invalid value: \"boolean\": must be of type string: \"boolean\"\n");
	says("[]", ": Invalid value: \"array\": must be of type object: \"array\"\n");
}

static void unknown_fields(void **state)
{
	(void)state;
	says("{\"big\":1,\"x\":{\"y\":1},\"port\":{\"number\":1,\"z\":1},\"ports\":[{\"number\":1,\"z\":1}]}",
		"x: unknown field\nport.z: unknown field\nports[0].z: unknown field\n");
	says("{\"big\":1,\"text\":{\"x\":1}}",
		"text.x: unknown field\ntext: Invalid value: \"object\": must be of type string: \"object\"\n");
	says("{\"big\":1,\"words\":{\"x\":[{\"y\":1}]}}",
		"words.x: unknown field\nwords: Invalid value: \"object\": must be of type array: \"object\"\n");
	says("{\"big\":1,\"on\":[[{\"y\":1}]]}",
		"on[0][0].y: unknown field\non: Invalid value: \"array\": must be of type boolean: \"array\"\n");
}

static void list_types(void **state)
{
	(void)state;
	says("{\"big\":1,\"words\":[\"a\",\"b\",\"a\",\"a\"]}",
		"words[2]: Duplicate value: \"a\"\n");
	says("{\"big\":1,\"ports\":[{\"number\":1},{\"number\":1,\"name\":\"http\"},{\"number\":1,\"name\":\"x\"}]}",
		"ports[1]: Duplicate value: {\"name\":\"http\",\"number\":1}\n");
	says("{\"big\":1,\"ports\":[{\"number\":1},{\"number\":1.0}]}",
		"ports[1]: Duplicate value: {\"name\":\"http\",\"number\":1}\n");
	says("{\"big\":1,\"ports\":[{\"number\":1},{\"number\":1},3]}",
		"ports[2]: Invalid value: \"integer\": must be of type object: \"integer\"\n");
}

static void rules_run_last(void **state)
{
	(void)state;
	says("{\"big\":1,\"small\":3}",
		"small: Invalid value: \"object\": must be even\n: Forbidden: may not be odd\n");
	says("{\"big\":1,\"small\":7}", /* the maximum does not stop them */
		"small: Invalid value: 7: should be less than or equal to 5\n"
		"small: Invalid value: \"object\": must be even\n: Forbidden: may not be odd\n");
	says("{\"big\":1,\"small\":3,\"color\":\"x\"}",
		"color: Unsupported value: \"x\": supported values: \"red\", \"green\"\n");
	says("{\"small\":3}", "big: Required value\n");
}

static void decoding(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err;
	struct thing t = { 0 };
	json_t *v = parse(
		"{\"big\":9223372036854775807,\"small\":-4.0,\"text\":\"abcd\",\"on\":true,\"port\":{\"number\":2},"
		"\"ports\":[{\"number\":1,\"name\":\"a\\u0000b\"},{\"number\":3}],\"words\":[\"x\",\"\"],\"map\":{\"k\":\"vv\"},\"zzz\":1}");
	assert_int_equal(kp_schema_default(&s_thing, v, &err), 0);
	assert_int_equal(kp_schema_decode(&s_thing, v, a, &t, &err), 0);
	json_decref(v); /* nothing points into it */
	assert_true(t.big == INT64_MAX);
	assert_true(t.has_small && t.small == -4);
	assert_true(t.has_on && t.on);
	assert_str_lit(t.text, "abcd");
	assert_int_equal(t.color, 2);
	assert_int_equal(t.port->number, 2);
	assert_str_lit(t.port->name, "http");
	assert_int_equal(t.n_ports, 2);
	assert_str_lit(t.ports[0].name, "a\0b");
	assert_int_equal(t.ports[1].number, 3);
	assert_int_equal(t.n_words, 2);
	assert_str_lit(t.words[0], "x");
	assert_str_lit(t.words[1], "");
	assert_non_null(t.words[1].p);
	assert_int_equal(t.n_map, 1);
	assert_str_lit(t.map[0].key, "k");
	assert_str_lit(t.map[0].value, "vv");

	struct thing empty = { 0 };
	v = parse("{\"big\":0,\"words\":[],\"on\":null}");
	assert_int_equal(kp_schema_decode(&s_thing, v, a, &empty, &err), 0);
	assert_true(!empty.has_small && !empty.has_on && !empty.port && !empty.text.p &&
		    empty.color == 0);
	assert_non_null(empty.words);
	assert_null(empty.ports);
	json_decref(v);

	KP_AUTO(arena) struct kp_arena *tiny = kp_arena_create(64);
	struct thing none = { 0 };
	v = parse(
		"{\"big\":0,\"text\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}");
	assert_int_equal(kp_schema_decode(&s_thing, v, tiny, &none, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	json_decref(v);
}

static void too_many_errors_are_counted(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_field_errors e;
	struct kp_err err;
	json_t *v = parse("{\"a\":1,\"b\":1,\"c\":1,\"d\":1}");
	assert_int_equal(kp_field_errors_init(&e, a, 3, &err), 0);
	kp_schema_unknown(&s_thing, v, NULL, &e);
	kp_schema_validate(&s_thing, v, &e);
	assert_int_equal(e.n, 3);
	assert_int_equal(e.omitted, 2);
	json_decref(v);
}

static void quoted(kp_str s, const char *want)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	kp_field_quote(&b, s);
	assert_string_equal(kp_buf_cstr(&b), want);
}

/* Go: strconv.Quote. */
static void quoting(void **state)
{
	(void)state;
	quoted(KP_S("a\"\\\a\b\f\n\r\t\v\x01\x7f"), "\"a\\\"\\\\\\a\\b\\f\\n\\r\\t\\v\\x01\\x7f\"");
	quoted(KP_S("\0"), "\"\\x00\"");
	quoted(KP_S("é日\xc2\xa0\xe2\x80\xa8\xf0\x9f\x98\x80\xff"), "\"é日\\u00a0\\u2028😀\\xff\"");
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_field_errors e;
	struct kp_err err;
	assert_int_equal(kp_field_errors_init(&e, a, 3, &err), 0);
	char longer[102];
	memset(longer, 'x', 99);
	memcpy(longer + 99, "é", 3);
	kp_field_add_str(&e, KP_FIELD_INVALID, kp_str_c(longer), "no");
	longer[99] = '\0';
	char want[200];
	snprintf(want, sizeof(want), "Invalid value: \"%s\"...: no", longer);
	assert_string_equal(e.p[0].text, want);
	char key[600];
	memset(key, 'k', sizeof(key));
	size_t mark = kp_field_push(&e, kp_str_n(key, sizeof(key)));
	kp_field_push_index(&e, 7);
	kp_field_add(&e, KP_FIELD_REQUIRED, NULL, "%s", "");
	assert_int_equal(strlen(e.p[1].path), sizeof(e.path) - 1);
	kp_field_pop(&e, mark);
	assert_string_equal(e.path, "");
}

static void names(void **state)
{
	(void)state;
	assert_true(kp_is_dns_label(KP_S("a-0")) && !kp_is_dns_label(KP_S("a.b")) &&
		    !kp_is_dns_label(KP_S("")) && !kp_is_dns_label(KP_S("-a")));
	assert_true(kp_is_dns_subdomain(KP_S("a.b-c.0")) && !kp_is_dns_subdomain(KP_S("a..b")) &&
		    !kp_is_dns_subdomain(KP_S("a.")) && !kp_is_dns_subdomain(KP_S("A")));
	assert_true(kp_is_label_value(KP_S("")) && kp_is_label_value(KP_S("A_b.c-d")) &&
		    !kp_is_label_value(KP_S("a-")) && !kp_is_label_value(KP_S("a/b")));
	assert_true(kp_is_qualified_name(KP_S("a.b/C_d")) && kp_is_qualified_name(KP_S("C")) &&
		    !kp_is_qualified_name(KP_S("/a")) && !kp_is_qualified_name(KP_S("a/")) &&
		    !kp_is_qualified_name(KP_S("a/b/c")));
	assert_true(kp_is_ip(KP_S("127.0.0.1")) && kp_is_ip(KP_S("::1")) &&
		    kp_is_ip(KP_S("2001:db8::7")) && kp_is_ip(KP_S("::1.2.3.4")));
	assert_false(kp_is_ip(KP_S("")) || kp_is_ip(KP_S("1.2.3")) ||
		     kp_is_ip(KP_S("::ffff:1.2.3.4")) || kp_is_ip(KP_S("fe80::1%lo")) ||
		     kp_is_ip(KP_S("[::1]")) || kp_is_ip(KP_S("1.2.3.4\0")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constraints),
		cmocka_unit_test(unknown_fields),
		cmocka_unit_test(list_types),
		cmocka_unit_test(rules_run_last),
		cmocka_unit_test(decoding),
		cmocka_unit_test(too_many_errors_are_counted),
		cmocka_unit_test(quoting),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
