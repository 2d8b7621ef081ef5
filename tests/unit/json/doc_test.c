/* The document loader: limits, positions, error texts. What scalars and structure mean is proven by
 * tests/oracle/json. */
#include "base/clock.h"
#include "base/mem.h"
#include "json/doc.h"
#include "json/jansson.h"
#include "tests/test.h"

#include <time.h>

static int load(kp_str text, struct kp_yaml_stream *s, struct kp_err *err)
{
	return kp_doc_yaml(text, "x.yaml", &kp_doc_limits_manifest, s, err);
}

static void refused(kp_str text, const char *want)
{
	struct kp_yaml_stream s;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(load(text, &s, &err), -1);
	assert_string_equal(err.msg, want);
}
#define refused_lit(text, want) refused(KP_S(text), want)

static void becomes(kp_str text, const char *want)
{
	struct kp_yaml_stream s;
	struct kp_err err = KP_ERR_INIT;
	if (load(text, &s, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
	assert_int_equal(s.n, 1);
	char *got = json_dumps(s.docs[0].value, JSON_COMPACT | JSON_ENCODE_ANY);
	assert_string_equal(got, want);
	free(got);
	kp_yaml_stream_fini(&s);
}

static void documents_and_what_is_skipped(void **state)
{
	(void)state;
	struct kp_yaml_stream s;
	struct kp_err err;
	assert_int_equal(
		load(KP_S("# c\n---\n---\na: 1\n---\nnull\n---\n[b]\n---\n"), &s, &err), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.docs[0].pos.line, 4);
	assert_int_equal(s.docs[1].pos.line, 8);
	kp_yaml_stream_fini(&s);
	assert_int_equal(load(KP_STR_NULL, &s, &err), 0);
	assert_int_equal(s.n, 0);
	kp_yaml_stream_fini(&s);
	kp_yaml_stream_fini(&s); /* zeroed now */
}

static void scalars(void **state)
{
	(void)state;
	becomes(KP_S("[yes, 'yes', 012, 0x1f, 0b1, 1_000, 1:30, 1e3, 1.5, ~, 2001-01-01]"),
		"[true,\"yes\",10,31,1,1000,\"1:30\",1000,1.5,null,\"2001-01-01\"]");
	becomes(KP_S("on: 1\n1.50: 2\n0x10: 3\n"), "{\"true\":1,\"1.5\":2,\"16\":3}");
	becomes(KP_S("a: 18446744073709551615"), "{\"a\":1.8446744073709552e19}");
	becomes(KP_S("\"a\\0b\""), "\"a\\u0000b\"");
	becomes(KP_S("\xef\xbb\xbf"
		     "a: 1"),
		"{\"a\":1}");
	becomes(KP_S("\xff\xfe"
		     "a\0:\0 \0\xe9\0"),
		"{\"a\":\"\xc3\xa9\"}");
	refused_lit("a: .inf", "parse `x.yaml`: line 1 column 4: `.inf` has no JSON form");
	refused_lit("~: 1", "parse `x.yaml`: line 1 column 1: a key must be a string, got null");
	refused_lit("\"a\\0\": 1", "parse `x.yaml`: line 1 column 1: a key must not contain a NUL");
	refused_lit("[a]: 1",
		"parse `x.yaml`: line 1 column 1: a key must be a string, got a sequence");
	refused_lit("99999999999999999999: 1\n18446744073709551615: 1",
		"parse `x.yaml`: line 2 column 1: a number this large cannot be a key; quote it");
	refused_lit("a: !!int x", "parse `x.yaml`: line 1 column 4: `x` is no !!int");
	refused_lit("a: !x y", "parse `x.yaml`: line 1 column 4: tag `!x` is not supported here");
}

static void syntax_errors_name_the_place(void **state)
{
	(void)state;
	refused_lit("a: 1\nb: 2\na: 3\n",
		"parse `x.yaml`: line 3 column 1: key `a` is already set at line 1");
	refused_lit("a:\n  - x\n b: 1\n",
		"parse `x.yaml`: line 3 column 2: did not find expected key (while parsing a block mapping from line 1)");
	refused_lit("a: 1\nb: \x01\n",
		"parse `x.yaml`: line 2 column 4: control characters are not allowed");
	refused_lit("a: 1\nb: \xc3\x28\n",
		"parse `x.yaml`: line 2 column 5: invalid trailing UTF-8 octet");
	refused_lit(
		"a: \xed\xa0\x80", "parse `x.yaml`: line 1 column 4: invalid Unicode character");
	refused_lit("a: *x\n", "parse `x.yaml`: line 1 column 4: no anchor `&x` before this alias");
	refused_lit("a: &x [1, *x]\n",
		"parse `x.yaml`: line 1 column 11: an alias stands inside the value of its own anchor");
	refused_lit("a: &x 1\n---\nb: *x\n",
		"parse `x.yaml`: line 3 column 4: no anchor `&x` before this alias");
	refused_lit("{\"a\": 1, \"a\": 2}",
		"parse `x.yaml`: line 1 column 10: key `a` is already set at line 1");
}

static void merges(void **state)
{
	(void)state;
	becomes(KP_S("b: &b {x: 1, y: 2}\na: {<<: *b, x: 3, z: 4}"),
		"{\"b\":{\"x\":1,\"true\":2},\"a\":{\"x\":3,\"true\":2,\"z\":4}}");
	becomes(KP_S("- &a {k: 1}\n- &b {k: 2, l: 3}\n- {<<: [*a, *b], m: 4}"),
		"[{\"k\":1},{\"k\":2,\"l\":3},{\"k\":1,\"l\":3,\"m\":4}]");
	becomes(KP_S("{<<: {k: {l: 1}}}"), "{\"k\":{\"l\":1}}");
	becomes(KP_S("{'<<': 1}"), "{\"<<\":1}");
	refused_lit("{<<: 1}",
		"parse `x.yaml`: line 1 column 6: a merge (`<<`) takes a mapping or a sequence of mappings");
	refused_lit("- &a [{k: 1}]\n- {<<: *a}",
		"parse `x.yaml`: line 2 column 8: a merge (`<<`) takes a mapping or a sequence of mappings");
	refused_lit("{<<: {k: 1}, k: 2, k: 3}",
		"parse `x.yaml`: line 1 column 20: key `k` is already set at line 1");
	refused_lit("{k: 1, <<: {k: 2}}",
		"parse `x.yaml`: line 1 column 2: key `k` stands before the merge that brings it too; put `<<` first");
	refused_lit("{<<: {k: 1}, <<: {l: 1}}",
		"parse `x.yaml`: line 1 column 14: key `<<` is already set; merge several mappings as a sequence");
}

static void copies_under_aliases_are_separate(void **state)
{
	(void)state;
	struct kp_yaml_stream s;
	struct kp_err err;
	assert_int_equal(load(KP_S("a: &x {k: {l: 1}}\nb: *x\nc: {<<: *x}"), &s, &err), 0);
	json_t *v = s.docs[0].value;
	json_object_set_new(json_object_get(json_object_get(v, "b"), "k"), "l", json_integer(2));
	assert_int_equal(json_integer_value(kp_doc_at(v, "a.k.l")), 1);
	assert_int_equal(json_integer_value(kp_doc_at(v, "b.k.l")), 2);
	assert_int_equal(json_integer_value(kp_doc_at(v, "c.k.l")), 1);
	kp_yaml_stream_fini(&s);
}

static void expect_pos(
	const struct kp_yaml_doc *d, const char *path, uint32_t line, uint32_t column)
{
	struct kp_doc_pos p = kp_yaml_pos(d, path);
	if (p.line != line || p.column != column) {
		print_error("`%s`: %u:%u, want %u:%u\n", path, p.line, p.column, line, column);
		fail();
	}
}

static void positions(void **state)
{
	(void)state;
	struct kp_yaml_stream s;
	struct kp_err err;
	assert_int_equal(load(KP_S("spec:\n"
				   "  endpoints: &e\n"
				   "  - address: h\n"
				   "    port: 1\n"
				   "  - {address: é, port: 2}\n"
				   "  labels: {a.b: 1, a: {b: 2, 'c[0]': 3}}\n"
				   "  more: *e\n"
				   "  <<: {m: 1}\n"),
				 &s, &err),
		0);
	const struct kp_yaml_doc *d = &s.docs[0];
	expect_pos(d, "", 1, 1);
	expect_pos(d, "spec", 2, 3);
	expect_pos(d, "spec.endpoints[0].port", 4, 11);
	expect_pos(d, "spec.endpoints[1].port", 5, 24);
	expect_pos(d, "spec.endpoints[1].missing.more", 5, 5);
	expect_pos(d, "spec.endpoints[7]", 2, 14);
	expect_pos(d, "spec.endpoints[x]", 2, 14);
	expect_pos(d, "spec.labels.a.b", 6, 17);
	expect_pos(d, "spec.labels[a.b]", 6, 17);
	expect_pos(d, "spec.labels[a].b", 6, 27);
	expect_pos(d, "spec.labels.a.c[0]", 6, 38);
	expect_pos(d, "spec.more", 7, 9);
	expect_pos(d, "spec.more[1].port", 5, 24); /* where the anchor has it */
	expect_pos(d, "spec.m", 8, 11);
	struct kp_doc_pos k = kp_yaml_key_pos(d, "spec.endpoints[1].port");
	assert_int_equal(k.line, 5);
	assert_int_equal(k.column, 18);
	kp_yaml_stream_fini(&s);

	assert_int_equal(
		load(KP_S("\n {\"a\": [\n  true, {\"é\": \"\\ud83d\\ude00\", \"b\": 2}]}\n{\"c\": 1}"),
			&s, &err),
		0);
	assert_int_equal(s.n, 2);
	expect_pos(&s.docs[0], "a[0]", 3, 3);
	expect_pos(&s.docs[0], "a[1].b", 3, 36);
	expect_pos(&s.docs[1], "c", 4, 7);
	assert_str_lit(kp_doc_str(json_array_get(kp_doc_at(s.docs[0].value, "a"), 1), "é"),
		"\xf0\x9f\x98\x80");
	kp_yaml_stream_fini(&s);
}

static void *repeat(kp_str unit, size_t n, kp_str tail, kp_str *ret)
{
	char *p = kp_xmalloc(unit.n * n + tail.n + 1);
	for (size_t i = 0; i < n; i++) {
		memcpy(p + i * unit.n, unit.p, unit.n);
	}
	memcpy(p + unit.n * n, tail.p, tail.n);
	*ret = kp_str_n(p, unit.n * n + tail.n);
	return p;
}

/* CPU time of this thread, which a busy machine does not stretch. */
static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * KP_NS_PER_S + t.tv_nsec;
}

/* libyaml alone needs seconds for some of these. */
static void refused_quickly(kp_str unit, size_t n, kp_str tail, const char *want)
{
	kp_str text;
	void *p = repeat(unit, n, tail, &text);
	struct kp_yaml_stream s;
	struct kp_err err = KP_ERR_INIT;
	int64_t from = cpu_ns();
	assert_int_equal(load(text, &s, &err), -1);
	assert_in_range(cpu_ns() - from, 0, KP_NS_PER_S);
	if (kp_str_find(kp_str_c(err.msg), kp_str_c(want)) < 0) {
		print_error("%s\n", err.msg);
		fail();
	}
	kp_mem_free(p);
}

static void hostile_texts_cost_little(void **state)
{
	(void)state;
	refused_quickly(KP_S("["), 50000, KP_S(""), "nested deeper than 64 levels");
	refused_quickly(KP_S("[\n"), 50000, KP_S(""), "nested deeper than 64 levels");
	refused_quickly(KP_S("{a: "), 50000, KP_S(""), "nested deeper than 64 levels");
	refused_quickly(KP_S("{\"a\":"), 50000, KP_S(""), "nested deeper than 64 levels");
	refused_quickly(KP_S("- "), 50000, KP_S(""), "nested deeper than 64 levels");
	refused_quickly(KP_S("? "), 50000, KP_S(""), "a key must be a string");
	refused_quickly(KP_S("- 1\n"), 100001, KP_S(""), "more than 100000 values");
	refused_quickly(KP_S("a: &a [x]\n---\n"), 1001, KP_S(""), "more than 1000 documents");
	refused_quickly(KP_S("x"), (1 << 20) + 1, KP_S(""), "1048577 bytes, more than 1048576");
	refused_quickly(KP_S("&a "), 50000, KP_S(""), "did not find expected");
	refused_quickly(KP_S("!"), 500000, KP_S(" x"), "tag `tag:yaml.org,2002:!!!");
	refused_quickly(KP_S("'"), 500001, KP_S(""), "found unexpected end of stream");
	refused_quickly(KP_S("%TAG !a! b\n"), 50000, KP_S(""), "found duplicate %TAG directive");
	/* An alias bomb; and one long string under many aliases. */
	refused_lit(
		"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
		"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
		"parse `x.yaml`: line 5 column 29: more than 100000 values (aliases count as what they stand for)");
	kp_str text;
	void *p = repeat(KP_S("x"), 600000, KP_S("\n- [*a,*a,*a,*a,*a,*a,*a]\n"), &text);
	memcpy(p, "- &a ", 5);
	refused(text,
		"parse `x.yaml`: line 2 column 19: more than 4194304 bytes of text after aliases are expanded");
	kp_mem_free(p);
}

/* 20,000 merged keys, each overridden: linear. */
static void large_merges_are_linear(void **state)
{
	(void)state;
	struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	for (int pass = 0; pass < 2; pass++) {
		kp_buf_addz(&b, pass ? "b:\n  <<: *a\n" : "a: &a\n");
		for (int i = 0; i < 20000; i++) {
			kp_buf_printf(&b, "  k%d: %d\n", i, pass);
		}
	}
	struct kp_yaml_stream s;
	struct kp_err err;
	int64_t from = cpu_ns();
	assert_int_equal(load(kp_buf_str(&b), &s, &err), 0);
	assert_in_range(cpu_ns() - from, 0, 5 * KP_NS_PER_S);
	assert_int_equal(json_object_size(kp_doc_at(s.docs[0].value, "b")), 20000);
	assert_int_equal(json_integer_value(kp_doc_at(s.docs[0].value, "b.k19999")), 1);
	kp_yaml_stream_fini(&s);
	kp_buf_fini(&b);
}

static void json_text(void **state)
{
	(void)state;
	struct kp_err err;
	json_t *v;
	assert_int_equal(
		kp_doc_json(KP_S(" {\"a\": [1, 1.0, -0, 1e2, 9223372036854775808, \"\\u0000\"]} "),
			"x", &kp_doc_limits_manifest, &v, &err),
		0);
	const json_t *a = kp_doc_at(v, "a");
	assert_true(json_is_integer(json_array_get(a, 0)));
	assert_true(json_is_real(json_array_get(a, 1)));
	assert_true(json_is_integer(json_array_get(a, 2)));
	assert_true(json_is_real(json_array_get(a, 4)));
	assert_int_equal(json_string_length(json_array_get(a, 5)), 1);
	assert_null(kp_doc_at(v, "a.b"));
	assert_null(kp_doc_str(v, "a").p);
	json_decref(v);
	static const char *const bad[][2] = {
		{ "", "parse `x`: line 1 column 1: parse JSON: the text ends, expected a value, at byte 0" },
		{ "{\"a\":1}\n x",
			"parse `x`: line 2 column 2: parse JSON: expected the end, got `x` at byte 9" },
		{ "{\"a\":1,\n\"a\":1}",
			"parse `x`: line 2 column 1: key `a` is already set at line 1" },
		{ "[1e999]", "parse `x`: line 1 column 7: `[0]`: number `1e999` is out of range" },
		{ "\xef\xbb\xbf[",
			"parse `x`: line 1 column 2: parse JSON: the text ends, expected a value, at byte 1 (in `[0]`)" },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(
			kp_doc_json(kp_str_c(bad[i][0]), "x", &kp_doc_limits_manifest, &v, &err),
			-1);
		assert_string_equal(err.msg, bad[i][1]);
	}
	const struct kp_doc_limits small = {
		.max_bytes = 10, .max_nodes = 3, .max_depth = 2, .max_docs = 1
	};
	assert_int_equal(kp_doc_json(KP_S("[[[]]]"), "x", &small, &v, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	assert_int_equal(kp_doc_json(KP_S("[1,2,3]"), "x", &small, &v, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	assert_int_equal(kp_doc_json(KP_S("[11111111111]"), "x", &small, &v, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	assert_int_equal(kp_doc_json(KP_S("[1,[]]"), "x", &small, &v, &err), 0);
	json_decref(v);
}

/* A *.json file that is YAML is read as such (kubectl does not look at names); one that is neither
 * gets JSON's error. */
static void json_files(void **state)
{
	(void)state;
	struct kp_yaml_stream s;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(
		kp_doc_yaml(KP_S("a: 1\n"), "x.json", &kp_doc_limits_manifest, &s, &err), 0);
	assert_int_equal(err.code, KP_OK);
	kp_yaml_stream_fini(&s);
	assert_int_equal(kp_doc_yaml(KP_S("{\"a\": 1,\n \"b\": }"), "x.json",
				 &kp_doc_limits_manifest, &s, &err),
		0);
	kp_yaml_stream_fini(&s);
	assert_int_equal(kp_doc_yaml(KP_S("{\"a\": 1,\n \"b\": ]}"), "x.json",
				 &kp_doc_limits_manifest, &s, &err),
		-1);
	assert_string_equal(err.msg,
		"parse `x.json`: line 2 column 7: parse JSON: expected a value, got `]` at byte 15 (in `b`)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_and_what_is_skipped),
		cmocka_unit_test(scalars),
		cmocka_unit_test(syntax_errors_name_the_place),
		cmocka_unit_test(merges),
		cmocka_unit_test(copies_under_aliases_are_separate),
		cmocka_unit_test(positions),
		cmocka_unit_test(hostile_texts_cost_little),
		cmocka_unit_test(large_merges_are_linear),
		cmocka_unit_test(json_text),
		cmocka_unit_test(json_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
