/* Loops with a switch, made at random: what a render prints, where its bytes come from and how it fails is the same with the switch found (lib/template/latch.c) as
   without. A loop with an `else`, which is empty here, is one that is not looked at. KP_STEPS in the environment: so many templates. */
#include "template/parse.h"
#include "template/template.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

static const char vars_json[] =
	"{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": \"two\"},"
	" {\"role\": \"user\", \"content\": \"<r>\"}, {\"role\": \"assistant\", \"content\": null}, {\"role\": \"user\"}], \"big\": 9223372036854775800}";

static const char *const iterables[] = { "messages", "messages[::-1]", "messages|reverse", "g",
	"messages[1:]", "range(messages|length - 1, -1, -1)", "range(4)", "'abcd'", "messages|list",
	"messages[0]", "(messages[0], messages[1], messages[2])" };
static const char *const conditions[] = { "m.role == 'user'", "loop.first", "loop.index0 > 2",
	"not loop.last", "m.content is string", "m.nothing.x == 1", "'o' in m.content",
	"messages[loop.index0].role == 'assistant'", "ns.n < 2", "m", "true", "mac(m) == 'u'" };
static const char *const switches[] = { "ns.a", "not ns.b", "ns.a", "not ns.b", "not ns.a",
	"ns.missing", "not ns.b.c", "m.role", "not ns.l", "big", "loop.first", "o.x" };
static const char *const effects[] = { "{% set ns.a = false %}", "{% set ns.b = true %}",
	"{% set ns.a = true %}", "{% set ns.n = loop.index0 %}", "{% set ns.n = ns.n + 1 %}",
	"{% set ns.k = m.content %}", "{% set ns.l = loop %}", "{% set i = ns.n %}", "{{ m }}",
	"{% set ns = namespace(a=true, b=false, n=7) %}", "{% set ns.n = i %}",
	"{% if m.role == 'user' %}{% set ns.a = false %}{% else %}{% set ns.b = true %}{% endif %}",
	"{% set x %}{{ loop.index }}{% endset %}",
	"{% for q in 'xy' %}{% set ns.n = 4 %}{% endfor %}", "{% break %}", "{% continue %}",
	"{{ turn() }}", "{% set ns.k = mac(m) %}" };
static const char *const others[] = { "{% set i = messages|length - 1 - loop.index0 %}",
	"{% set i = (messages|length - 1) - loop.revindex0 %}", "{% set i = loop.index + 3 + 4 %}",
	"{% set i = big + loop.index0 %}", "{% set i = m.content|length %}", "{% set i = i - 1 %}",
	"{% set i = big|length %}", "{% set i = 100000000 - loop.length %}", "{% set m = 3 %}",
	"{{ loop.index }}", "x", "{% set ns.n = loop.index0 %}",
	"{% set i = 9223372036854775805 + loop.index0 %}", "{% set ns.n = ns.n + 1 %}",
	"{% set i = 1 / (3 - loop.index) %}", "{% set big = loop.index %}", "{% continue %}",
	"{{ '' }}" };

static const char *one_of(struct kp_rng *rng, const char *const *of, size_t n)
{
	return of[kp_rng_below(rng, (uint32_t)n)];
}
#define PICK(rng, of) one_of(rng, of, KP_LEN(of))

static void make_loop(struct kp_rng *rng, struct kp_buf *b, const char *other)
{
	bool tame = kp_rng_below(rng, 2);
	const char *lead = tame ? switches[kp_rng_below(rng, 4)] : PICK(rng, switches);
	kp_buf_printf(b, "{%% for m in %s %%}", PICK(rng, iterables));
	for (uint64_t n = 1 + kp_rng_below(rng, 3); n; n--) {
		if (!tame && kp_rng_below(rng, 5) == 0) {
			kp_buf_addz(b, PICK(rng, others));
			continue;
		}
		if (kp_rng_below(rng, 3) == 0) {
			kp_buf_addz(b, others[kp_rng_below(rng, 3)]);
		}
		kp_buf_printf(b, "{%% if %s",
			tame || kp_rng_below(rng, 8) ? lead : switches[kp_rng_below(rng, 5)]);
		for (uint64_t k = kp_rng_below(rng, 3); k; k--) {
			kp_buf_printf(b, " and %s", PICK(rng, conditions));
		}
		kp_buf_lit(b, " %}");
		for (uint64_t k = 1 + kp_rng_below(rng, 3); k; k--) {
			kp_buf_addz(b, tame || kp_rng_below(rng, 3) ? effects[kp_rng_below(rng, 6)]
								    : PICK(rng, effects));
		}
		if (!tame && kp_rng_below(rng, 12) == 0) {
			kp_buf_printf(b, "{%% else %%}%s", PICK(rng, effects));
		}
		kp_buf_lit(b, "{% endif %}");
	}
	kp_buf_printf(b, "%s{%% endfor %%}", other);
	kp_buf_lit(b,
		"[{{ ns.a }} {{ ns.b }} {{ ns.n }} {{ ns.k }} {{ m }} {{ i }} {{ ns.l.index if ns.l is defined }}]");
}

static void make(uint64_t seed, struct kp_buf *b, const char *other)
{
	struct kp_rng rng;
	kp_rng_seed(&rng, seed);
	kp_buf_lit(b,
		"{% set ns = namespace(a=true, b=false, n=0) %}{% set g = messages|map('string') %}{% set o = namespace(x=1) %}"
		"{% macro mac(p) %}{{ p.role[0] }}{% endmacro %}{% macro turn() %}{% set o.x = 0 %}t{% endmacro %}");
	for (int i = 0; i < 2; i++) {
		make_loop(&rng, b, other);
	}
	kp_buf_lit(b, "{{ g|list }}");
}

static int count_latches(void *ctx, struct kp_node *n)
{
	*(size_t *)ctx += n->op == KP_OP_FOR && n->latch;
	return kp_node_children(n, count_latches, ctx);
}

struct result {
	int rc;
	struct kp_text text;
	struct kp_err err;
};

static size_t run(uint64_t seed, const char *other, const struct kp_jv *vars, struct kp_arena *a,
	struct kp_buf *b, struct result *ret)
{
	KP_AUTO(template) struct kp_template *t = NULL;
	size_t latches = 0;
	const struct kp_template_var v[] = {
		{ vars->members[0].key, &vars->members[0].value, KP_ORIGIN_CLIENT },
		{ vars->members[1].key, &vars->members[1].value, KP_ORIGIN_TRUSTED },
	};
	const struct kp_template_opts opts = { .vars = v, .n_vars = 2 };
	*ret = (struct result){ .err = KP_ERR_INIT };
	kp_buf_reset(b);
	make(seed, b, other);
	ret->rc = kp_template_compile(kp_buf_str(b), &t, &ret->err);
	if (ret->rc == 0) {
		count_latches(&latches, t->root);
		ret->rc = kp_template_render(t, &opts, a, &ret->text, &ret->err);
	}
	return latches;
}

static void test_loops(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), n = 3000;
	const char *z = getenv("KP_STEPS");
	size_t latches = 0, rendered = 0;
	KP_AUTO(arena)
	struct kp_arena *in = kp_arena_create(1 << 20), *a = kp_arena_create(64 << 20);
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv vars;
	kp_buf_init(&b, 1 << 20);
	assert_int_equal(kp_jv_parse(kp_str_c(vars_json), in, &vars, &err), 0);
	if (z && !kp_str_u64(kp_str_c(z), UINT32_MAX, &n)) {
		fail_msg("KP_STEPS is no number");
	}
	for (uint64_t i = 0; i < n; i++, seed++) {
		struct result x, y;
		kp_arena_reset(a);
		assert_int_equal(run(seed, "{% else %}", &vars, a, &b, &y), 0);
		latches += run(seed, "", &vars, a, &b, &x);
		bool same = x.rc == y.rc && (x.rc ? strcmp(x.err.msg, y.err.msg) == 0
						  : kp_str_eq(x.text.s, y.text.s) &&
								    x.text.n_runs == y.text.n_runs);
		for (size_t k = 0; same && !x.rc && k < x.text.n_runs; k++) {
			same = x.text.runs[k].end == y.text.runs[k].end &&
			       x.text.runs[k].origin == y.text.runs[k].origin;
		}
		if (!same) {
			fail_msg("seed %llu: %s\n%s %.*s\n%s %.*s", (unsigned long long)seed,
				kp_buf_cstr(&b), x.err.msg, (int)x.text.s.n, x.text.s.p, y.err.msg,
				(int)y.text.s.n, y.text.s.p);
		}
		rendered += x.rc == 0;
	}
	print_message("# %zu of %zu loops have a switch, %zu templates rendered\n", latches,
		(size_t)n * 2, rendered);
	assert_true(latches > n / 2 && rendered > n / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_loops) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
