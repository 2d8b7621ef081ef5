/* Provenance, for expressions made at random from filters, methods and operators over a client's data:
   - the text is the same whatever the origins say;
   - what is marked as the template's own never contains anything of the client's. The client's strings are made of letters (q and z, in both
     cases) that no template here prints of its own;
   - runs cover the text exactly and neighbours differ. */
#include "template/template.h"
#include "tests/test.h"

#include <stdio.h>

static const char client_json[] =
	"{\"s\": \"qzx jqz,xJ\\nZQ 'x\\\" z<j>\", \"w\": \" \\tqz \\n\", \"c\": \"Q\", \"n\": 999, \"f\": 9.5, \"e\": \"\", \"l\": [\"qz\", \"ZX\", \"jj\"],"
	" \"d\": {\"qk\": \"zv\", \"xk\": [\"J\", {\"zz\": \"q\"}]}, \"u\": [{\"qn\": \"xx\", \"jt\": 99}, {\"qn\": \"QQ\"}]}";

/* Operands: %s is where the next operand goes. */
static const char *const leaves[] = { "c.s", "c.w", "c.c", "c.e", "c.n", "c.f", "c.l", "c.d", "c.u",
	"'To <m>'", "'a,b c'", "'%s|%s'", "'{}-{}'", "['a', 'b']", "{'k': c.s, c.c: 'v'}", "2",
	"'M'", "[c.s, 'a', c.l]", "c.s[1:4]", "c.l[0]", "c.d.qk", "c.u[0].qn", "('a', c.c)",
	"' a\\nb '" };
static const char *const shapes[] = { "(%s ~ %s)", "(%s + %s)", "(%s|string|upper)", "(%s|lower)",
	"(%s|title)", "(%s|capitalize)", "(%s|trim)", "(%s|string).strip('q ')",
	"(%s|string).split(',')", "(%s|string).split()", "(%s|string).rsplit(' ', 1)",
	"(%s|string).splitlines()", "(%s|string).partition('x')", "(%s|replace('q', 'T'))",
	"(%s|replace('a', %s))", "(%s|string).replace(%s|string, 'R')", "(%s|join(%s))",
	"(%s|string).join(['a', 'b', 'c'])", "(%s|list)", "(%s|first)", "(%s|last)", "(%s|reverse)",
	"(%s|reverse|list)", "(%s|sort)", "(%s|tojson)", "(%s|tojson(indent=2))",
	"(%s|tojson(indent=%s|string))", "(%s|tojson(separators=(%s|string, ': ')))",
	"(%s|tojson(ensure_ascii=true))", "(%s|string)[1:]", "(%s|string)[::-1]",
	"(%s|string)[:-1]", "('%%s and %%r' %% (%s, %s))", "(%s|string %% (%s, %s))",
	"('%%(a)s' %% {'a': %s})", "('%%5s|%%-9s' %% (%s, 'm'))", "'{} {!r:>9}'.format(%s, %s)",
	"(%s|string).format(%s, %s)", "'{:{f}>12}'.format('M', f=c.c)", "(%s|indent)",
	"(%s|indent(%s|string, true))", "(%s|string|center(12))", "'M'.center(7, %s)",
	"(%s|string).ljust(20, 'T')", "(%s|string).zfill(14)", "(%s|string|truncate(6, true, 'E'))",
	"(%s|string|truncate(5, end=c.c, leeway=0))", "(%s|string|wordwrap(4))",
	"('a b c'|wordwrap(2, wrapstring=%s|string))", "(%s|escape)", "(%s|safe)",
	"(%s|escape + %s)", "(%s|urlencode)", "(%s|string|striptags)", "(%s|xmlattr)",
	"(%s|dictsort)", "(%s|items|list)", "(%s.items()|list)", "(%s.keys()|list)",
	"(%s.values())", "(%s|map('upper')|list)", "(%s|map('string')|join)",
	"(%s|select('string')|list)", "(%s|unique|list)", "(%s|batch(2, %s)|list)",
	"(%s|slice(2)|list)", "(%s|groupby('qn')|list)", "(%s|map(attribute='qn')|list)",
	"(%s|min)", "(%s|max)", "(%s|string).swapcase()", "(%s|string).casefold()",
	"(%s|string).expandtabs(3)", "(%s|string).removeprefix('qz')", "(%s|default(%s))",
	"(%s or %s)", "(%s and %s)", "(%s if %s else %s)", "[%s, %s]", "{'k': %s}", "(%s * 2)",
	"(%s|string|list|join('.'))", "(%s|float)", "(%s|int)", "(%s + 1)", "(%s|abs)",
	"namespace(v=%s).v", "dict(k=%s)", "(%s|format(%s))", "mac(%s)" };

static void expression(struct kp_rng *rng, int depth, struct kp_buf *b)
{
	if (depth == 0 || kp_rng_below(rng, 6) == 0) {
		kp_buf_addz(b, leaves[kp_rng_below(rng, KP_LEN(leaves))]);
		return;
	}
	const char *shape = shapes[kp_rng_below(rng, KP_LEN(shapes))];
	for (; *shape; shape++) {
		if (shape[0] == '%' && shape[1] == 's') {
			expression(rng, depth - 1, b);
			shape++;
		} else {
			shape += shape[0] == '%' && shape[1] == '%';
			kp_buf_addc(b, *shape);
		}
	}
}

static void check_runs(const struct kp_text *t, const char *source, enum kp_origin client)
{
	size_t start = 0;
	for (size_t i = 0; i < t->n_runs; i++) {
		uint32_t end = t->runs[i].end, origin = t->runs[i].origin;
		assert_true(end > start && end <= t->s.n);
		assert_true(i == 0 || origin != t->runs[i - 1].origin);
		assert_true(origin == KP_ORIGIN_TRUSTED || origin == client);
		for (size_t k = start; origin == KP_ORIGIN_TRUSTED && k < end; k++) {
			if (memchr("qzQZ", t->s.p[k], 4)) {
				fail_msg("%s: trusted \"%.*s\"", source, (int)(end - start),
					t->s.p + start);
			}
		}
		start = end;
	}
	assert_int_equal(start, t->s.n);
}

static bool render(const struct kp_template *t, const struct kp_jv *c, enum kp_origin origin,
	struct kp_arena *a, struct kp_text *ret)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_template_var v = { KP_S("c"), c, origin };
	struct kp_template_opts opts = {
		.vars = &v, .n_vars = 1, .max_steps = 1000000, .max_output = 1 << 20
	};
	return kp_template_render(t, &opts, a, ret, &err) == 0;
}

static void test_random_expressions(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	size_t rendered = 0;
	for (int i = 0; i < 40000; i++) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(256 << 20);
		KP_AUTO(buf) struct kp_buf b;
		struct kp_template *t = NULL;
		struct kp_err err = KP_ERR_INIT;
		struct kp_jv c;
		struct kp_text text[3];
		kp_buf_init(&b, 1 << 20);
		kp_buf_lit(
			&b, "{% macro mac(p) %}<{{ p }}|{{ p|length }}>{% endmacro %}{% set v = ");
		expression(&rng, 3, &b);
		kp_buf_lit(&b, " %}{{ v }}{% set w %}[{{ v }}]{% endset %}{{ w|trim('[') ~ w }}");
		const char *source = kp_buf_cstr(&b);
		if (kp_template_compile(kp_buf_str(&b), &t, &err)) {
			fail_msg("%s: %s", source, err.msg);
		}
		assert_int_equal(kp_jv_parse(kp_str_c(client_json), a, &c, &err), 0);
		bool ok = render(t, &c, KP_ORIGIN_TRUSTED, a, &text[0]);
		assert_int_equal(ok, render(t, &c, KP_ORIGIN_CLIENT, a, &text[1]));
		assert_int_equal(ok, render(t, &c, KP_ORIGIN_ASSISTANT, a, &text[2]));
		for (int k = 1; ok && k < 3; k++) {
			assert_true(kp_str_eq(text[0].s, text[k].s));
			check_runs(
				&text[k], source, k == 1 ? KP_ORIGIN_CLIENT : KP_ORIGIN_ASSISTANT);
		}
		rendered += ok;
		kp_template_destroy(t);
	}
	assert_true(rendered > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_expressions) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
