/* What the validator says, where, and when; what compile refuses; the strict subset; budgets. The keywords themselves are tested by the JSON-Schema-Test-Suite
   (tests/oracle/jsonschema). */
#include "jsonschema/jsonschema.h"
#include "tests/test.h"

struct asked {
	int result;
	enum kp_jsonschema_verdict verdict;
	size_t certain; /* bytes fed, one by one, when it was INVALID */
	struct kp_jsonschema_error first;
	size_t n_errors;
	struct kp_err err;
};

static int compile(const char *text, struct kp_jsonschema **ret, struct kp_err *err)
{
	struct kp_arena *a = kp_arena_create(64 << 20);
	struct kp_jv v;
	struct kp_jsonschema_options o = { .assert_formats = true };
	assert_int_equal(kp_jv_parse(kp_str_c(text), a, &v, err), 0);
	int r = kp_jsonschema_compile(&v, &o, ret, err);
	kp_arena_destroy(a); /* a compiled schema keeps nothing of the text */
	return r;
}

static struct asked ask(const char *schema, kp_str text, const struct kp_jsonschema_limits *limits)
{
	struct asked a = { .certain = 0 };
	struct kp_jsonschema *s;
	assert_int_equal(compile(schema, &s, &a.err), 0);
	struct kp_jsonschema_run *r = kp_jsonschema_run_create(s, limits);
	for (size_t i = 0; i < text.n && a.result == 0; i++) {
		a.result =
			kp_jsonschema_run_feed(r, kp_str_sub(text, i, i + 1), &a.verdict, &a.err);
		if (a.result == 0 && a.verdict == KP_JSONSCHEMA_INVALID && !a.certain) {
			a.certain = i + 1;
		}
	}
	if (a.result == 0) {
		a.result = kp_jsonschema_run_finish(r, &a.verdict, &a.err);
	}
	const struct kp_jsonschema_error *errors = kp_jsonschema_run_errors(r, &a.n_errors);
	a.first = a.n_errors ? errors[0] : a.first;
	kp_jsonschema_run_destroy(r);
	kp_jsonschema_destroy(s);
	return a;
}

/* text is wrong once `certain` bytes are there. */
static void expect(const char *schema, const char *text, size_t certain, const char *pointer,
	const char *keyword, const char *message)
{
	struct asked a = ask(schema, kp_str_c(text), NULL);
	assert_int_equal(a.result, 0);
	assert_int_equal(a.verdict, KP_JSONSCHEMA_INVALID);
	assert_string_equal(a.first.pointer, pointer);
	assert_string_equal(a.first.keyword, keyword);
	assert_string_equal(a.first.message, message);
	assert_int_equal(a.certain, certain);
}

static void test_is_said_as_early_as_it_is_certain(void **state)
{
	(void)state;
	const char *person =
		"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":3},\"tags\":{\"type\":\"array\",\"maxItems\":1}},"
		"\"required\":[\"name\"],\"additionalProperties\":false}";
	expect(person, "[1]", 1, "", "#/type", "expected an object, got an array");
	expect(person, "{\"name\": 1}", 10, "/name", "#/properties/name/type",
		"expected a string, got a number");
	expect(person, "{\"name\":\"abcdef\"}", 13, "/name", "#/properties/name/maxLength",
		"longer than 3");
	expect(person, "{\"name\":\"\\u20acbc\\uD83D\\uDE00x\"}", 29, "/name",
		"#/properties/name/maxLength", "longer than 3");
	expect(person, "{\"other\":1}", 10, "/other", "#/additionalProperties",
		"nothing is allowed here");
	expect(person, "{\"tags\":[1,2]}", 12, "/tags", "#/properties/tags/maxItems",
		"more items than 1");
	expect(person, "{\"tags\":[]}", 11, "", "#/required", "there is no member `name`");
	expect(person, "{\"name\":\"a\",\"name\":\"b\"}", 18, "", "",
		"there is already a member `name`");
	expect(person, "{\"name\":\"a\"} x", 14, "", "",
		"parse JSON: expected the end, got `x` at byte 13");
	expect("{\"anyOf\":[{\"type\":\"string\"},{\"items\":{\"minimum\":10}}]}", "[10,9.5]", 8,
		"/1", "#/anyOf/1/items/minimum", "below 10 (the last alternative of `anyOf`)");
	expect("{\"if\":{\"required\":[\"a\"]},\"else\":{\"properties\":{\"b\":false}}}",
		"{\"b\":1}", 7, "", "#/else", "neither `if` nor `else` holds");
	expect("{\"enum\":[\"a\",{\"b\":[1.0]}]}", "{\"b\":[2]}", 9, "", "#/enum",
		"not one of the values");
	expect("{\"uniqueItems\":true}", "[{\"a\":1,\"b\":2},{\"b\":2.0,\"a\":1e0},0]", 32, "",
		"#/uniqueItems", "an item is there twice");
	expect("{\"items\":{\"properties\":{\"a/b~\":{\"const\":1}}}}", "[{},{\"a/b~\":2}]", 14,
		"/1/a~1b~0", "#/items/properties/a~1b~0/const", "not the value");
}

static void test_numbers_are_exact(void **state)
{
	(void)state;
	expect("{\"maximum\":9007199254740993}", "9007199254740993.0000000000000001 ", 34, "",
		"#/maximum", "above 9007199254740993");
}

static void test_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *schema, *text;
		bool valid;
	} cases[] = { { "{\"multipleOf\":0.01}", "0.07", true },
		{ "{\"multipleOf\":0.01}", "0.075", false },
		{ "{\"multipleOf\":3}", "3e400000", true },
		{ "{\"multipleOf\":7}", "1e400000", false },
		{ "{\"type\":\"integer\"}", "1.0", true },
		{ "{\"type\":\"integer\"}", "1e-1", false },
		{ "{\"type\":\"integer\"}", "10e-1", true }, { "{\"const\":1}", "1.000e0", true },
		{ "{\"const\":0}", "-0.0", true },
		{ "{\"const\":123456789012345678901234567890}", "123456789012345678901234567891",
			false },
		{ "{\"exclusiveMinimum\":-0.1}", "-0.1", false },
		{ "{\"minimum\":1e-400}", "1e-401", false },
		{ "{\"maximum\":1e400}", "9e399", true },
		{ "{\"maximum\":1}", "1e99999999999999999999999999", false },
		{ "{\"maximum\":1}", "1e-99999999999999999999999999", true } };
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct asked a = ask(cases[i].schema, kp_str_c(cases[i].text), NULL);
		assert_int_equal(a.result, 0);
		assert_int_equal(
			a.verdict, cases[i].valid ? KP_JSONSCHEMA_VALID : KP_JSONSCHEMA_INVALID);
	}
}

static void test_several_errors(void **state)
{
	(void)state;
	const struct kp_jsonschema_limits three = { .max_errors = 3 };
	struct asked a = ask(
		"{\"items\":{\"type\":\"integer\"}}", KP_S("[1,\"a\",2.5,{\"x\":1},null]"), &three);
	assert_int_equal(a.n_errors, 3);
	assert_string_equal(a.first.pointer, "/1");
	a = ask("{\"items\":{\"type\":\"integer\"},\"maxItems\":2}", KP_S("[1,\"a\",2]"), &three);
	assert_int_equal(a.n_errors, 2);
}

static void refused(const char *schema, enum kp_code code, const char *message)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_jsonschema *s;
	assert_int_equal(compile(schema, &s, &err), -1);
	assert_int_equal(err.code, code);
	assert_string_equal(err.msg, message);
}

static void test_refused_schemas(void **state)
{
	(void)state;
	refused("{\"properties\":{\"a\":{\"type\":\"text\"}}}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/properties/a/type`: expected null, boolean, number, integer, string, array or object, or an array of them, got a string");
	refused("{\"$ref\":\"https://example.com/x.json\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/$ref`: `https://example.com/x.json`: no such document; nothing is fetched");
	refused("{\"$ref\":\"#/$defs/a\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/$ref`: `#/$defs/a`: leads nowhere");
	refused("{\"$ref\":\"#\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#`: `$ref` leads back to itself");
	refused("{\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/b\"},true]},\"b\":{\"not\":{\"$ref\":\"#/$defs/a\"}}},\"$ref\":\"#/$defs/a\"}",
		KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/$defs/a`: `$ref` leads back to itself");
	refused("{\"$schema\":\"http://json-schema.org/draft-04/schema#\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/$schema`: `http://json-schema.org/draft-04/schema#` is not known: drafts 2020-12 and 7 are");
	refused("{\"pattern\":\"(*LIMIT_MATCH=1)a\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/pattern`: compile pattern `(*LIMIT_MATCH=1)a`: nothing to repeat at byte 1");
	refused("{\"pattern\":\"(?i)a\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/pattern`: compile pattern `(?i)a`: a group that ECMA-262 does not have at byte 0");
	refused("{\"multipleOf\":0}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/multipleOf`: expected a number above 0, got a number");
	refused("[]", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#`: expected a schema (an object or a boolean), got an array");
}

/* before, n times part, behind */
static const char *repeated(
	struct kp_buf *b, const char *before, const char *part, size_t n, const char *behind)
{
	kp_buf_init(b, 64 << 20);
	kp_buf_addz(b, before);
	for (size_t i = 0; i < n; i++) {
		kp_buf_addz(b, part);
	}
	kp_buf_addz(b, behind);
	return kp_buf_cstr(b);
}

static void limited(const char *before, const char *part, size_t most, const char *behind,
	enum kp_code code, const char *message)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(jsonschema) struct kp_jsonschema *s = NULL;
	KP_AUTO(buf) struct kp_buf fits = { 0 }, more = { 0 };
	assert_int_equal(compile(repeated(&fits, before, part, most, behind), &s, &err), 0);
	refused(repeated(&more, before, part, most + 1, behind), code, message);
}

static void test_limits_of_schemas(void **state)
{
	(void)state;
	char nots[7 * 100 + 1] = "", ends[100 + 1] = "";
	limited("{\"allOf\":[", "true,", 19998, "true]}", KP_RESOURCE_EXHAUSTED,
		"compile JSON schema: `schemas`: more than 20000");
	limited("{\"enum\":[", "1,", 19999, "1]}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/enum`: `20001` values, at most 20000");
	limited("{\"pattern\":\"", "a", 8192, "\"}", KP_INVALID_ARGUMENT,
		"compile JSON schema: `#/pattern`: compile a pattern: `8193` bytes, at most 8192");
	for (size_t i = 0; i < 100; i++) {
		memcpy(nots + 7 * i, "{\"not\":", 8);
		ends[i] = '}';
	}
	char chain[1000];
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(jsonschema) struct kp_jsonschema *s = NULL;
	snprintf(chain, sizeof(chain), "%strue%s", nots + 7, ends + 1);
	assert_int_equal(compile(chain, &s, &err), 0);
	snprintf(chain, sizeof(chain), "%strue%s", nots, ends);
	refused(chain, KP_INVALID_ARGUMENT,
		"compile JSON schema: `#`: more than 100 schemas one in the other on one value");
}

/* The code of a pattern is much longer than the pattern. */
static void test_patterns_take_memory(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b = { 0 };
	refused(repeated(&b, "{\"allOf\":[", "{\"pattern\":\"(a{1,999}){1,60}\"},", 3000, "true]}"),
		KP_RESOURCE_EXHAUSTED,
		"compile JSON schema: `memory`: it takes more than the maximum");
}

/* What is kept of a schema, and what only while it is compiled. */
static void test_memory_of_schemas(void **state)
{
	(void)state;
	static const char *const before[] = { "{\"$anchor\":\"", "{\"$dynamicAnchor\":\"",
		"{\"required\":[\"", "{\"properties\":{\"" };
	static const char *const behind[] = { "\"}", "\"}", "\"]}", "\":true}}" };
	for (size_t i = 0; i < KP_LEN(before); i++) {
		KP_AUTO(buf) struct kp_buf b = { 0 };
		struct kp_err err = KP_ERR_INIT;
		struct kp_jsonschema *s;
		assert_int_equal(
			compile(repeated(&b, before[i], "12345678", 10 << 17, behind[i]), &s, &err),
			-1);
		assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	}
}

static void test_a_metaschema_of_itself(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v;
	struct kp_jsonschema *s;
	assert_int_equal(kp_jv_parse(KP_S("{\"$schema\":\"http://x/m\"}"), a, &v, &err), 0);
	const struct kp_jsonschema_document given = { KP_S_INIT("http://x/m"), &v };
	const struct kp_jsonschema_options o = { .documents = &given, .n_documents = 1 };
	assert_int_equal(kp_jsonschema_compile(&v, &o, &s, &err), -1);
	assert_string_equal(err.msg,
		"compile JSON schema: `#/$schema`: `http://x/m` is not known: drafts 2020-12 and 7 are");
}

static void used_up(const char *schema, kp_str text, const struct kp_jsonschema_limits *limits,
	const char *message)
{
	struct asked a = ask(schema, text, limits);
	assert_int_equal(a.result, -1);
	assert_int_equal(a.err.code, KP_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(a.err.msg, message));
}

static void test_budgets(void **state)
{
	(void)state;
	const struct kp_jsonschema_limits few_steps = { .max_steps = 10 },
					  shallow = { .max_depth = 3 },
					  small = { .max_bytes = 4096 };
	char deep[300], many[20000], number[1100];
	/* each level doubles */
	used_up("{\"$defs\":{\"a\":{\"anyOf\":[{\"items\":{\"$ref\":\"#/$defs/a\"}},{\"items\":{\"$ref\":\"#/$defs/a\"}}]}},\"$ref\":\"#/$defs/a\"}",
		KP_S("[[[[[[[[[[[[[[[[[[[[[[[["), &few_steps, "`steps`");
	used_up("true", KP_S("[[[[]]]]"), &shallow, "`depth`");
	memset(deep, '[', sizeof(deep));
	used_up("true", kp_str_n(deep, sizeof(deep)), NULL, "nested more than 128 deep");
	memset(many, 'x', sizeof(many));
	many[0] = '"';
	many[sizeof(many) - 1] = '"';
	used_up("{\"pattern\":\"y\"}", kp_str_n(many, sizeof(many)), &small, "`memory`");
	memset(number, '1', sizeof(number));
	used_up("true", kp_str_n(number, sizeof(number)), NULL, "number of more than 1024 bytes");
	memset(many + 1, 'a', sizeof(many) - 3);
	many[sizeof(many) - 2] = '!';
	used_up("{\"pattern\":\"^(a|a|aa)+$\"}", kp_str_n(many, sizeof(many)), NULL,
		"`backtracking of a pattern`");
	/* dear matches, each within its own limit, are few */
	size_t n = 0;
	for (many[n++] = '['; n + 20 < sizeof(many);) {
		memcpy(many + n, "\"aaaaaaaaaaaaa!\",", 17);
		n += 17;
	}
	used_up("{\"items\":{\"anyOf\":[{\"pattern\":\"^(a|a)+$\"},true]}}", kp_str_n(many, n),
		NULL, "`steps`");
}

/* What a value needed is free again at its end. */
static void test_memory_is_of_open_values(void **state)
{
	(void)state;
	const struct kp_jsonschema_limits small = { .max_bytes = 8192 };
	KP_AUTO(buf) struct kp_buf b = { 0 };
	repeated(&b, "[", "{\"a\":[1,2]},", 2000, "{}]");
	struct asked a = ask("{\"items\":{\"properties\":{\"a\":{\"uniqueItems\":true}}}}",
		kp_buf_str(&b), &small);
	assert_int_equal(a.result, 0);
	assert_int_equal(a.verdict, KP_JSONSCHEMA_VALID);
}

/* PCRE2's fast way to match has a small stack; then the other one answers. */
static void test_long_matches(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf fits = { 0 }, differs = { 0 };
	repeated(&fits, "\"", "ab", 5000, "\"");
	repeated(&differs, "\"", "ab", 5000, "!\"");
	struct asked a = ask("{\"pattern\":\"^(a|b)*$\"}", kp_buf_str(&fits), NULL);
	assert_int_equal(a.result, 0);
	assert_int_equal(a.verdict, KP_JSONSCHEMA_VALID);
	a = ask("{\"pattern\":\"^(a|b)*$\"}", kp_buf_str(&differs), NULL);
	assert_int_equal(a.result, 0);
	assert_int_equal(a.verdict, KP_JSONSCHEMA_INVALID);
}

/* Where a dynamic reference leads is known when it is met. */
static void test_dynamic_references_in_a_circle(void **state)
{
	(void)state;
	used_up("{\"$dynamicAnchor\":\"a\",\"$dynamicRef\":\"#a\"}", KP_S("1"), NULL,
		"`references that lead back to themselves`");
}

static void test_a_value_has_the_same_limits(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b = { 0 };
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jsonschema *s;
	enum kp_jsonschema_verdict verdict;
	struct kp_jv v;
	repeated(&b, "", "1", 1025, "");
	assert_int_equal(compile("true", &s, &err), 0);
	assert_int_equal(kp_jv_parse(kp_buf_str(&b), a, &v, &err), 0);
	struct kp_jsonschema_run *r = kp_jsonschema_run_create(s, NULL);
	assert_int_equal(kp_jsonschema_run_value(r, &v, &verdict, &err), -1);
	assert_string_equal(err.msg, "check JSON schema: `number`: of more than 1024 bytes");
	kp_jsonschema_run_destroy(r);
	kp_jsonschema_destroy(s);
}

/* Each reference looks through all of them. */
static void test_dynamic_anchors_take_steps(void **state)
{
	(void)state;
	const struct kp_jsonschema_limits few = { .max_steps = 2000 };
	KP_AUTO(buf) struct kp_buf b = { 0 };
	kp_buf_init(&b, 1 << 20);
	kp_buf_lit(&b, "{\"items\":{\"$dynamicRef\":\"#a1\"},\"$defs\":{");
	for (int i = 0; i < 10000; i++) {
		kp_buf_printf(&b, "%s\"%d\":{\"$dynamicAnchor\":\"a%d\"}", i ? "," : "", i, i);
	}
	kp_buf_lit(&b, "}}");
	used_up(kp_buf_cstr(&b), KP_S("[1,2,3,4,5,6,7,8]"), &few, "`steps`");
}

/* So does what a reference passes on its way through many resources, whether it looks for an anchor or for the resource itself. */
static void test_resources_take_steps(void **state)
{
	(void)state;
	enum { N = 801, A_LEVEL = 80 };
	static const char *const last[] = {
		"\"items\":{\"$ref\":\"#/$defs/q\"},\"$defs\":{\"q\":{\"$dynamicRef\":\"#a\"},\"r\":{\"$dynamicAnchor\":\"a\"}}}",
		"\"items\":{\"$ref\":\"r1\"},\"$defs\":{\"q\":{\"$dynamicAnchor\":\"a\"}}}"
	};
	const struct kp_jsonschema_limits few = { .max_steps = 60000 };
	for (size_t k = 0; k < KP_LEN(last); k++) {
		KP_AUTO(buf) struct kp_buf b = { 0 };
		kp_buf_init(&b, 1 << 20);
		kp_buf_lit(&b, "{\"$ref\":\"r0\",\"$defs\":{");
		for (int i = 0; i < N - 1; i++) {
			kp_buf_printf(&b,
				i % A_LEVEL == A_LEVEL - 1
					? "\"%d\":{\"$id\":\"r%d\",\"items\":{\"$ref\":\"r%d\"}},"
					: "\"%d\":{\"$id\":\"r%d\",\"$ref\":\"r%d\"},",
				i, i, i + 1);
		}
		kp_buf_printf(&b, "\"last\":{\"$id\":\"r%d\",%s}}", N - 1, last[k]);
		KP_AUTO(buf) struct kp_buf text = { 0 };
		used_up(kp_buf_cstr(&b), kp_str_c(repeated(&text, "[[[[[[[[[[[", "0,", 500, "0")),
			&few, "`steps`");
	}
}

static void strict(const char *schema, const char *message)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(16 << 20);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v;
	assert_int_equal(kp_jv_parse(kp_str_c(schema), a, &v, &err), 0);
	int r = kp_jsonschema_check_strict(&v, &err);
	assert_int_equal(r, message ? -1 : 0);
	if (message) {
		assert_string_equal(err.msg, message);
	}
}

static void test_strict_subset(void **state)
{
	(void)state;
	strict("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"string\",\"null\"]},\"b\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}},"
	       "\"required\":[\"a\",\"b\"],\"additionalProperties\":false}",
		NULL);
	strict("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{}}},\"required\":[\"a\"],\"additionalProperties\":false}",
		"check strict JSON schema: `#/properties/a`: `additionalProperties` must be there, and false");
	strict("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[],\"additionalProperties\":false}",
		"check strict JSON schema: `#`: `required` must have every key of `properties`; `a` is missing");
	strict("{\"type\":\"object\",\"properties\":{\"a\":{\"allOf\":[{}],\"type\":\"string\"}},\"required\":[\"a\"],\"additionalProperties\":false}",
		"check strict JSON schema: `#/properties/a`: `allOf` is not permitted");
	strict("{\"anyOf\":[]}", "check strict JSON schema: `#`: the root must not be `anyOf`");
	strict("{\"type\":\"array\",\"items\":{}}",
		"check strict JSON schema: `#`: the root's type must be `object`");
	strict("{\"type\":\"object\",\"properties\":{\"a\":{\"description\":\"x\"}},\"required\":[\"a\"],\"additionalProperties\":false}",
		"check strict JSON schema: `#/properties/a`: there is no `type`");
}

static void strict_limited(
	const char *before, const char *part, size_t most, const char *behind, const char *message)
{
	KP_AUTO(buf) struct kp_buf fits = { 0 }, more = { 0 };
	strict(repeated(&fits, before, part, most, behind), NULL);
	strict(repeated(&more, before, part, most + 1, behind), message);
}

static const char *with_properties(struct kp_buf *b, unsigned n)
{
	kp_buf_init(b, 1 << 20);
	kp_buf_lit(b, "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
	for (unsigned i = 0; i < n; i++) {
		kp_buf_printf(b, "%s\"%u\":{\"type\":\"null\"}", i ? "," : "", i);
	}
	kp_buf_lit(b, "},\"required\":[");
	for (unsigned i = 0; i < n; i++) {
		kp_buf_printf(b, "%s\"%u\"", i ? "," : "", i);
	}
	kp_buf_lit(b, "]}");
	return kp_buf_cstr(b);
}

static void test_limits_of_the_strict_subset(void **state)
{
	(void)state;
#define OBJECT \
	"{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"a\"],\"properties\":{\"a\":"
	char level[3000];
	KP_AUTO(buf) struct kp_buf most = { 0 }, more = { 0 };
	strict_limited(OBJECT "{\"enum\":[", "1,", 999, "1]}}}",
		"check strict JSON schema: `#/properties/a`: more than 1000 enum values in all");
	strict_limited(OBJECT "{\"enum\":[", "\"0123456789012345678901234567890123456789\",", 374,
		"\"0123456789012345678901234567890123456789\"]}}}",
		"check strict JSON schema: `#/properties/a`: an enum of more than 250 values may have 15000 characters, got 15040");
	strict_limited(OBJECT "{\"const\":\"", "x", 119999, "\"}}}",
		"check strict JSON schema: `#/properties/a`: more than 120000 characters in names and values");
	strict(with_properties(&most, 5000), NULL);
	strict(with_properties(&more, 5001),
		"check strict JSON schema: `#`: more than 5000 properties in all");
	for (unsigned n = 10; n <= 11; n++) {
		size_t at = 0;
		for (unsigned i = 0; i < n - 1; i++) {
			at += (size_t)snprintf(level + at, sizeof(level) - at, "%s", OBJECT);
		}
		at += (size_t)snprintf(level + at, sizeof(level) - at, "%s",
			"{\"type\":\"object\",\"additionalProperties\":false}");
		for (unsigned i = 0; i < n - 1; i++) {
			at += (size_t)snprintf(level + at, sizeof(level) - at, "}}");
		}
		strict(level,
			n == 10 ? NULL
				: "check strict JSON schema: `#/properties/a/properties/a/properties/a/properties/a/properties/a/properties/a/properties/a/pr`: more than 10 levels of objects");
	}
#undef OBJECT
}

static void test_documents_that_are_given(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv schema, other;
	struct kp_jsonschema *s;
	enum kp_jsonschema_verdict verdict;
	assert_int_equal(
		kp_jv_parse(KP_S("{\"$ref\":\"other.json#/$defs/x\"}"), a, &schema, &err), 0);
	assert_int_equal(
		kp_jv_parse(KP_S("{\"$defs\":{\"x\":{\"type\":\"null\"}}}"), a, &other, &err), 0);
	const struct kp_jsonschema_document given = { KP_S_INIT("https://example.com/other.json"),
		&other };
	const struct kp_jsonschema_options o = { .uri = KP_S_INIT("https://example.com/a.json"),
		.documents = &given,
		.n_documents = 1 };
	assert_int_equal(kp_jsonschema_compile(&schema, &o, &s, &err), 0);
	struct kp_jsonschema_run *r = kp_jsonschema_run_create(s, NULL);
	assert_int_equal(kp_jsonschema_run_feed(r, KP_S("7"), &verdict, &err), 0);
	assert_int_equal(verdict, KP_JSONSCHEMA_INVALID);
	size_t n;
	assert_string_equal(kp_jsonschema_run_errors(r, &n)[0].keyword,
		"https://example.com/other.json#/$defs/x/type");
	kp_jsonschema_run_destroy(r);
	kp_jsonschema_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_said_as_early_as_it_is_certain),
		cmocka_unit_test(test_numbers_are_exact),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_several_errors),
		cmocka_unit_test(test_refused_schemas),
		cmocka_unit_test(test_a_metaschema_of_itself),
		cmocka_unit_test(test_limits_of_schemas),
		cmocka_unit_test(test_memory_of_schemas),
		cmocka_unit_test(test_patterns_take_memory),
		cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_memory_is_of_open_values),
		cmocka_unit_test(test_long_matches),
		cmocka_unit_test(test_dynamic_references_in_a_circle),
		cmocka_unit_test(test_a_value_has_the_same_limits),
		cmocka_unit_test(test_dynamic_anchors_take_steps),
		cmocka_unit_test(test_resources_take_steps),
		cmocka_unit_test(test_strict_subset),
		cmocka_unit_test(test_limits_of_the_strict_subset),
		cmocka_unit_test(test_documents_that_are_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
