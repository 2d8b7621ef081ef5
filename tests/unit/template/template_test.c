/* kp_template_*: compiling, rendering, budgets, origins, what a template mentions. The semantics themselves are compared with jinja2 in
   tests/oracle/template. */
#include "template/template.h"
#include "tests/test.h"

#include <stdio.h>

struct render {
	struct kp_arena *a;
	struct kp_template *t;
	struct kp_err err;
	struct kp_text text;
	int rc;
};

/* vars: a JSON object; the variable "messages" is the client's, the others are trusted. */
static void render(struct render *r, kp_str source, kp_str vars, struct kp_template_opts opts)
{
	struct kp_template_var v[16];
	struct kp_jv o;
	*r = (struct render){ .a = kp_arena_create(64 << 20), .err = KP_ERR_INIT };
	r->rc = kp_template_compile(source, &r->t, &r->err);
	if (r->rc) {
		return;
	}
	assert_int_equal(kp_jv_parse(vars, r->a, &o, &r->err), 0);
	opts.vars = v;
	for (uint32_t i = 0; i < o.n; i++) {
		bool client = kp_str_eq(o.members[i].key, KP_S("messages"));
		v[opts.n_vars++] = (struct kp_template_var){ o.members[i].key, &o.members[i].value,
			client ? KP_ORIGIN_CLIENT : KP_ORIGIN_TRUSTED };
	}
	r->rc = kp_template_render(r->t, &opts, r->a, &r->text, &r->err);
}

static void done(struct render *r)
{
	kp_template_destroy(r->t);
	kp_arena_destroy(r->a);
}

static void check(const char *source, const char *vars, const char *expected)
{
	struct render r;
	render(&r, kp_str_c(source), kp_str_c(vars),
		(struct kp_template_opts){ .now_wall_ns = INT64_C(1772291045678901000) });
	if (r.rc) {
		fail_msg("%s: %s", source, r.err.msg);
	}
	kp_str e = kp_str_c(expected);
	if (!kp_str_eq(r.text.s, e)) {
		fail_msg("%s: got \"%.*s\"", source, (int)r.text.s.n, r.text.s.p);
	}
	done(&r);
}

static void check_fails(const char *source, const char *vars, enum kp_code code, const char *msg)
{
	struct render r;
	render(&r, kp_str_c(source), kp_str_c(vars),
		(struct kp_template_opts){ .max_steps = 100000, .max_output = 1 << 20 });
	assert_int_equal(r.rc, -1);
	assert_int_equal(r.err.code, code);
	assert_string_equal(r.err.msg, msg);
	done(&r);
}

static void test_text(void **state)
{
	(void)state;
	check("", "{}", "");
	check("a\r\nb\n", "{}", "a\nb");
	check("{{ x }} {{ y }}", "{\"x\": 1.50, \"y\": [1, \"a\", null]}", "1.5 [1, 'a', None]");
	check("{% for m in messages %}{{ loop.index }}{{ m.role }};{% endfor %}",
		"{\"messages\": [{\"role\": \"user\"}, {\"role\": \"tool\"}]}", "1user;2tool;");
	check("{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}", "{}", "2026-02-28 15:04:05.678901");
	check("{{ 12345678901234567890123 }} {{ x }}", "{\"x\": -98765432109876543210}",
		"12345678901234567890123 -98765432109876543210");
}

static void test_variables_override(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_template *t = NULL;
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv one, two;
	struct kp_text text;
	assert_int_equal(kp_jv_parse(KP_S("1"), a, &one, &err), 0);
	assert_int_equal(kp_jv_parse(KP_S("\"r\""), a, &two, &err), 0);
	assert_int_equal(
		kp_template_compile(KP_S("{{ x }}{{ range }}{{ y is defined }}"), &t, &err), 0);
	struct kp_template_var v[] = { { KP_S("x"), &one, KP_ORIGIN_TRUSTED },
		{ KP_S("range"), &two, KP_ORIGIN_TRUSTED }, { KP_S("x"), &two, KP_ORIGIN_TRUSTED },
		{ KP_S("y"), NULL, KP_ORIGIN_TRUSTED } };
	struct kp_template_opts opts = { .vars = v, .n_vars = KP_LEN(v) };
	assert_int_equal(kp_template_render(t, &opts, a, &text, &err), 0);
	assert_true(kp_str_eq(text.s, KP_S("rrFalse")));
	kp_template_destroy(t);
	kp_arena_destroy(a);
}

static void test_failures_name_the_line(void **state)
{
	(void)state;
	check_fails("a\n{{ x.y }}", "{}", KP_INVALID_ARGUMENT,
		"render template: line 2: 'x' is undefined");
	check_fails("{{ x.y.z }}", "{\"x\": {}}", KP_INVALID_ARGUMENT,
		"render template: line 1: 'dict object' has no attribute 'y'");
	check_fails("{{ 1 + 'a' }}", "{}", KP_INVALID_ARGUMENT,
		"render template: line 1: unsupported operand type(s) for +: 'int' and 'str'");
	check_fails("{{ 9223372036854775807 + 1 }}", "{}", KP_INVALID_ARGUMENT,
		"render template: line 1: integer overflow: the result of + is beyond 64 bits");
	check_fails("{{ raise_exception('no ' ~ x) }}", "{\"x\": 5}", KP_INVALID_ARGUMENT, "no 5");
	check_fails("{{ raise_exception('no ' ~ x ~ '!') }}", "{\"x\": \"a\\u0000b\"}",
		KP_INVALID_ARGUMENT, "no a?b!");
	check_fails("{{ raise_exception('') }}", "{}", KP_INVALID_ARGUMENT, "");
	check_fails("\n{% if %}", "{}", KP_INVALID_ARGUMENT,
		"compile template: line 2: expected an expression, got `end of statement block`");
	check_fails("{{ x", "{}", KP_INVALID_ARGUMENT,
		"compile template: line 1: expected `end of print statement`, got `end of template`");
	check_fails("{% for x in y %}", "{}", KP_INVALID_ARGUMENT,
		"compile template: line 1: unexpected end of template, looking for `endfor`");
	check_fails("{{ '\\ud800' }}", "{}", KP_INVALID_ARGUMENT,
		"compile template: line 1: escape of no character (U+D800) in a string");
}

/* One piece of source again and again, compiled within so many bytes for one. */
static int compile_many(const char *begin, const char *piece, const char *end, size_t n_bytes,
	size_t per_byte, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_buf_add(&b, kp_str_c(begin));
	while (b.n < n_bytes) {
		kp_buf_add(&b, kp_str_c(piece));
	}
	kp_buf_add(&b, kp_str_c(end));
	struct kp_template *t = NULL;
	int rc = kp_template_compile_within(kp_buf_str(&b), per_byte * b.n, &t, err);
	kp_template_destroy(t);
	return rc;
}

/* The memory of compiling grows with the source, not faster, whatever is in it. */
static void test_compile_memory(void **state)
{
	static const char *const many[][3] = { { "{{ a", "<a", " }}" }, { "{{ ", "'a' ", " }}" },
		{ "{{ [", "-a,", "] }}" }, { "{{ [", "a(),", "] }}" },
		{ "{{ [", "a[b:c],", "] }}" }, { "", "{% set a=a %}", "" }, { "", "{{ a }}\n", "" },
		{ "", "{% for a in a %}{{ a }}{% endfor %}", "" } };
	struct kp_err err;
	(void)state;
	for (size_t i = 0; i < KP_LEN(many); i++) {
		for (size_t n = 10000; n <= 100000; n *= 10) {
			err = KP_ERR_INIT;
			int rc = compile_many(many[i][0], many[i][1], many[i][2], n, 400, &err);
			assert_string_equal(err.msg, "");
			assert_int_equal(rc, 0);
		}
	}
	assert_int_equal(compile_many("\n{{ a", "<a", " }}", 100000, 60, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(err.msg,
		"compile template: line 2: it takes more memory to compile than it may (docs/templates.md)");
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_buf_lit(&b, "{{ f(");
	for (int i = 0; i < 1001; i++) {
		kp_buf_printf(&b, "a%d=1,", i);
	}
	kp_buf_lit(&b, ") }}");
	struct kp_template *t;
	assert_int_equal(kp_template_compile(kp_buf_str(&b), &t, &err), -1);
	assert_string_equal(
		err.msg, "compile template: line 1: more than 1000 keyword arguments in one call");
}

static void test_limits(void **state)
{
	(void)state;
	struct kp_template *t = NULL;
	struct kp_err err = KP_ERR_INIT;
	size_t n = (1 << 20) + 1;
	char *big = kp_xmalloc(n);
	memset(big, 'x', n);
	assert_int_equal(kp_template_compile(kp_str_n(big, n), &t, &err), -1);
	assert_string_equal(err.msg, "compile template: 1048577 bytes, more than 1048576");
	assert_int_equal(kp_template_compile(kp_str_n(big, n - 1), &t, &err), 0);
	kp_template_destroy(t);
	assert_int_equal(kp_template_compile(KP_S("a\xff"), &t, &err), -1);
	assert_string_equal(err.msg, "compile template: byte 1 is not UTF-8");
	memset(big, '(', 1000);
	memcpy(big, "{{ ", 3);
	assert_int_equal(kp_template_compile(kp_str_n(big, 1000), &t, &err), -1);
	assert_string_equal(err.msg, "compile template: line 1: nesting deeper than 200");
	for (int i = 3; i < 3003; i += 2) {
		memcpy(big + i, "a.", 2);
	}
	memcpy(big + 3003, "a }}", 4);
	assert_int_equal(kp_template_compile(kp_str_n(big, 3007), &t, &err), -1);
	assert_string_equal(err.msg, "compile template: line 1: expression deeper than 400");
	kp_free(&big);
}

/* Whatever statement or expression nests too deep is an error, never a crash. */
static void test_nesting_of_everything(void **state)
{
	(void)state;
	static const char *const open[] = { "{% if x %}", "{% for a in x %}", "{% macro m() %}",
		"{{ [", "{{ {1: ", "{{ -", "{{ not ", "{{ x[", "{{ x if ", "{{ x|f(" };
	for (size_t k = 0; k < KP_LEN(open); k++) {
		KP_AUTO(buf) struct kp_buf b;
		struct kp_template *t = NULL;
		struct kp_err err = KP_ERR_INIT;
		kp_buf_init(&b, 1 << 20);
		const char *again = open[k][1] == '{' && k >= 3 ? open[k] + 3 : open[k];
		kp_buf_addz(&b, open[k]);
		for (int i = 0; i < 20000; i++) {
			kp_buf_addz(&b, again);
		}
		assert_int_equal(kp_template_compile(kp_buf_str(&b), &t, &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

static void test_budgets(void **state)
{
	(void)state;
	check_fails("{% for i in range(99999) %}{% for j in range(9) %}{% endfor %}{% endfor %}",
		"{}", KP_RESOURCE_EXHAUSTED, "render template: line 1: too many steps");
	check_fails("{{ 'xy' * 600000 }}", "{}", KP_RESOURCE_EXHAUSTED,
		"render template: line 1: too many steps");
	check_fails("{{ ('xy' * 9000) * 90 }}", "{}", KP_RESOURCE_EXHAUSTED,
		"render template: line 1: text of more than 1048576 bytes");
	check_fails("{% macro m(n) %}\n{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "{}",
		KP_RESOURCE_EXHAUSTED, "render template: line 2: recursion deeper than 1200");
	check_fails("{{ range(10 ** 9) }}", "{}", KP_INVALID_ARGUMENT,
		"render template: line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
}

static int64_t fake_now; /* a clock that goes on by 30 ms whenever it is asked */
static int64_t fake_clock(void)
{
	return fake_now += 30000000;
}

static void test_time(void **state)
{
	(void)state;
	struct render r;
	fake_now = 0;
	struct kp_template_opts opts = { .now_ns = fake_clock, .max_ms = 100 };
	render(&r,
		KP_S("{% for i in range(9999) %}\n{% for j in range(99) %}{% endfor %}{% endfor %}"),
		KP_S("{}"), opts);
	assert_int_equal(r.rc, -1);
	assert_int_equal(r.err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(r.err.msg, "render template: line 2: not done after 100 ms");
	assert_int_equal(fake_now, 5 * 30000000); /* once at the start, then every slice */
	done(&r);
	render(&r, KP_S("{% for i in range(999) %}{{ i }}{% endfor %}"), KP_S("{}"), opts);
	assert_int_equal(r.rc, 0);
	done(&r);
}

/* The arena's own limit is an error too, wherever it strikes. */
static void test_memory(void **state)
{
	(void)state;
	struct kp_template *t = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(
		kp_template_compile(
			KP_S("{% macro m(a) %}{{ a }}{% endmacro %}{% for i in range(300)|list %}{{ m([i, 'x' ~ i]|tojson)|upper }}"
			     "{{ {'k': i}|dictsort }}{% set z %}{{ loop.length }}{% endset %}{{ ('%s'|format(z)).split('0')|join }}{% endfor %}"),
			&t, &err),
		0);
	size_t failed = 0;
	for (size_t limit = 64; limit < 400000; limit += limit / 5) {
		struct kp_arena *a = kp_arena_create(limit);
		struct kp_template_opts opts = { 0 };
		struct kp_text text;
		if (kp_template_render(t, &opts, a, &text, &err)) {
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
			failed++;
		}
		kp_arena_destroy(a);
	}
	assert_true(failed > 10);
	kp_template_destroy(t);
}

/* What recurses, nests or stands on each other without end ends in an error or a text, and never in a full stack. */
static void test_recursion(void **state)
{
	(void)state;
	static const char *const sources[] = {
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		("{% macro m(x) %}{% for i in [1] recursive %}{% if true %}{% set z %}{{ ('a' ~ m([[x]]|map('first')|list))|upper }}"
		 "{% endset %}{% endif %}{% endfor %}{% endmacro %}{{ m(1) }}"),
		"{% for n in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{% macro m(x=m()) %}{% endmacro %}{{ m() }}",
		"{% macro m() %}{{ [[[[[[[[[[[[m()]]]]]]]]]]]] }}{% endmacro %}{{ m() }}",
		"{% macro m() %}{{ '%s' % ('{}'.format(m(),),) }}{% endmacro %}{{ m() }}",
		"{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
		"{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = {'a': ns.l} %}{% endfor %}{{ ns.l|tojson }}",
		"{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == [ns.l] }}",
		"{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l < [ns.l] }}",
		"{% set ns = namespace(g=(1,)) %}{% for i in range(5000) %}{% set ns.g = (ns.g,) %}{% endfor %}{{ {ns.g: 1} }}",
		"{% set ns = namespace(g=[1]) %}{% for i in range(5000) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
		"{% set ns = namespace(g=[1]) %}{% for i in range(5000) %}{% set ns.g = ns.g|select %}{% endfor %}{{ ns.g|list }}",
		"{% set ns = namespace(g=[1]) %}{% for i in range(5000) %}{% set ns.g = ns.g|batch(1) %}{% endfor %}{{ ns.g|first }}",
		"{% set ns = namespace(g=[1]) %}{% for i in range(5000) %}{% set ns.g = ns.g|unique %}{% endfor %}{% for x in ns.g %}{% endfor %}",
		"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
	};
	for (size_t i = 0; i < KP_LEN(sources); i++) {
		struct render r;
		render(&r, kp_str_c(sources[i]), KP_S("{}"), (struct kp_template_opts){ 0 });
		assert_int_equal(r.rc, -1);
		if (!strstr(r.err.msg, "deeper than")) {
			fail_msg("%s: %s", sources[i], r.err.msg);
		}
		done(&r);
	}
}

static void check_runs(const char *source, const char *vars, const char *expected)
{
	struct render r;
	char got[512];
	size_t n = 0, start = 0;
	render(&r, kp_str_c(source), kp_str_c(vars), (struct kp_template_opts){ 0 });
	if (r.rc) {
		fail_msg("%s: %s", source, r.err.msg);
	}
	for (size_t i = 0; i < r.text.n_runs; i++) {
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%c<%.*s>",
			"TCA"[r.text.runs[i].origin], (int)(r.text.runs[i].end - start),
			r.text.s.p + start);
		start = r.text.runs[i].end;
	}
	assert_int_equal(start, r.text.s.n);
	assert_string_equal(got, expected);
	done(&r);
}

static void test_origins(void **state)
{
	(void)state;
	const char *vars =
		"{\"bos\": \"<s>\", \"messages\": [{\"role\": \"user\", \"content\": \" u,v \"}, {\"role\": \"assistant\", \"content\": \"b\"}]}";
	check_runs("{{ bos }}{{ messages[0].content }}{{ messages[1].content }}.", vars,
		"T<<s>>C< u,v >A<b>T<.>");
	check_runs("{{ 'x' + messages[0].content.strip() + 'y' }}", vars, "T<x>C<u,v>T<y>");
	check_runs(
		"{% set z = 'x' ~ messages[0].content ~ messages[1].content ~ 'y' %}{{ z[2:-2] }}",
		vars, "C<u,v >");
	check_runs(
		"{% set z = 'x' ~ messages[0].content ~ 'y' %}{{ z|upper }}{{ z.split(',')[1] }}{{ z|replace('v', '<>') }}",
		vars, "T<X>C< U,V >T<Y>C<v >T<yx>C< u,>T<<>>C< >T<y>");
	check_runs("{{ messages[0].content|tojson }}{{ ['a', messages[1].content]|join('-') }}",
		vars, "C<\" u,v \">T<a->A<b>");
	check_runs(
		"{{ '%s|%s' % (messages[0].content|trim, 1) }}{{ '{}!'.format(messages[1].content) }}",
		vars, "C<u,v>T<|1>A<b>T<!>");
	check_runs(
		"{{ messages|length }}.{{ messages[1:][0].content }}{{ messages[::-1][0].content }}",
		vars, "C<2>T<.>A<bb>");
	check_runs(
		"{% for m in messages|rejectattr('role', 'equalto', 'user') %}{{ m.content }}{% endfor %}",
		vars, "A<b>");
	check_runs(
		"{% macro m(x) %}[{{ x }}]{% endmacro %}{% set b %}{{ m(messages[0].content) }}{% endset %}{{ b|trim }}",
		vars, "T<[>C< u,v >T<]>");
}

/* Strings grow in place; who holds an older one must not see it. */
static void test_growing_strings(void **state)
{
	(void)state;
	check("{% set ns = namespace(s='') %}{% for i in range(200) %}{% set ns.s = ns.s + 'abc' %}{% endfor %}{{ ns.s|length }}{{ ns.s[:4] }}",
		"{}", "600abca");
	check("{% set a = 'x' ~ 1 %}{% set b = a + 'b' %}{% set c = a + 'c' %}{% set d = b + 'd' %}{{ a }} {{ b }} {{ c }} {{ d }} {{ b + b + b }}",
		"{}", "x1 x1b x1c x1bd x1bx1bx1b");
	check("{% set ns = namespace(s='ab' ~ 'cd') %}{% for i in range(6) %}{% set ns.s = ns.s ~ ns.s[-2:] ~ ns.s[:1] %}{% endfor %}{{ ns.s }}",
		"{}", "abcdcdadaaaaaaaaaaaaaa");
}

static void count_literal(void *ctx, kp_str literal)
{
	kp_buf_printf(ctx, "[%.*s]", (int)literal.n, literal.p);
}

static void test_what_is_in_it(void **state)
{
	(void)state;
	struct kp_template *t = NULL;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4096);
	assert_int_equal(
		kp_template_compile(
			KP_S("<a>\n{% if tools and 'key' in x %}{{ m.role ~ '<b>' }}{{ m['content'] }}{{ m.get('name') }}{{ '<a>\n' }}{% endif %}"),
			&t, &err),
		0);
	kp_template_each_literal(t, count_literal, &b);
	kp_buf_addc(&b, '\0');
	assert_string_equal(b.p, "[<a>\n][key][<b>][content][name]");
	static const char *const yes[] = { "tools", "x", "m", "role", "content", "name", "key" },
				 *const no[] = { "<b>", "if", "documents", "" };
	for (size_t i = 0; i < KP_LEN(yes); i++) {
		assert_true(kp_template_mentions(t, kp_str_c(yes[i])));
	}
	for (size_t i = 0; i < KP_LEN(no); i++) {
		assert_false(kp_template_mentions(t, kp_str_c(no[i])));
	}
	kp_template_destroy(t);
	kp_template_destroy(NULL);
}

/* strftime_now at dates whose week, day and year numbers are awkward; the texts are Python's. */
static void test_strftime(void **state)
{
	(void)state;
	static const struct {
		int64_t s;
		const char *text;
	} cases[] = {
		{ 0, "Thursday 01 January 1970 00:00:00 001 00 00 01 1970 4 4" },
		{ 951782399, "Monday 28 February 2000 23:59:59 059 09 09 09 2000 1 1" },
		{ 951782400, "Tuesday 29 February 2000 00:00:00 060 09 09 09 2000 2 2" },
		{ 1104537600, "Saturday 01 January 2005 00:00:00 001 00 00 53 2004 6 6" },
		{ 1230768000, "Thursday 01 January 2009 00:00:00 001 00 00 01 2009 4 4" },
		{ 1262304000, "Friday 01 January 2010 00:00:00 001 00 00 53 2009 5 5" },
		{ 1609459199, "Thursday 31 December 2020 23:59:59 366 52 52 53 2020 4 4" },
		{ 1735603200, "Tuesday 31 December 2024 00:00:00 366 52 53 01 2025 2 2" },
		{ 4102444799, "Thursday 31 December 2099 23:59:59 365 52 52 53 2099 4 4" },
		{ -1, "Wednesday 31 December 1969 23:59:59 365 52 52 01 1970 3 3" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct render r;
		render(&r, KP_S("{{ strftime_now('%A %d %B %Y %H:%M:%S %j %U %W %V %G %u %w') }}"),
			KP_S("{}"),
			(struct kp_template_opts){ .now_wall_ns = cases[i].s * 1000000000 });
		assert_int_equal(r.rc, 0);
		kp_str e = kp_str_c(cases[i].text);
		if (!kp_str_eq(r.text.s, e)) {
			fail_msg("%s, got %.*s", cases[i].text, (int)r.text.s.n, r.text.s.p);
		}
		done(&r);
	}
}

/* A loop whose switch is turned is left; one that would still do something is not. */
static void test_latch(void **state)
{
	(void)state;
	static const struct {
		const char *body;
		bool is_left;
	} loops[] = {
		{ "{% if ns.open and i == 3 %}{% set ns.open = false %}{% endif %}", true },
		{ "{% set k = 7 - loop.index0 %}{% if ns.open %}{% set ns.open = k > 3 %}{% endif %}",
			true },
		{ "{% if not ns.found and i == 3 %}{% set ns.found = true %}{% endif %}", true },
		{ "{% if ns.open and i == 3 %}{% set ns.open = false %}{% else %}{% set ns.n = i %}{% endif %}",
			false },
		{ "{% if i == 3 and ns.open %}{% set ns.open = false %}{% endif %}", false },
		{ "{% if ns.open %}{% set ns.open = false %}{% endif %}{% set ns.n = i %}", false },
		{ "{% if ns.open %}{% set ns.open = false %}{% set ns.l = loop %}{% endif %}",
			false },
	};
	for (size_t i = 0; i < KP_LEN(loops); i++) {
		struct render r;
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 4096);
		kp_buf_printf(&b,
			"{%% set ns = namespace(open=true) %%}{%% for i in range(90000) %%}%s{%% endfor %%}done",
			loops[i].body);
		render(&r, kp_buf_str(&b), KP_S("{}"),
			(struct kp_template_opts){ .max_steps = 10000 });
		assert_int_equal(r.rc, loops[i].is_left ? 0 : -1);
		assert_int_equal(r.err.code, loops[i].is_left ? KP_OK : KP_RESOURCE_EXHAUSTED);
		done(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_variables_override),
		cmocka_unit_test(test_failures_name_the_line),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_compile_memory),
		cmocka_unit_test(test_nesting_of_everything),
		cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_growing_strings),
		cmocka_unit_test(test_what_is_in_it),
		cmocka_unit_test(test_strftime),
		cmocka_unit_test(test_latch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
