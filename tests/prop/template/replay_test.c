/* Loops over messages are replayed as they would run (lib/template/rounds.c): templates made at random, whose bodies ask and store whatever may be asked and stored, and those of models without a
   template of their own, on conversations that are edited at random (tests/prop/template/walk.h). KP_STEPS in the environment: so many renders of each kind. */
#include "template/native.h"
#include "tests/prop/template/walk.h"
#include "tests/test.h"

static const char *const pool[] = {
	"{\"role\": \"system\", \"content\": \"s <m>\"}",
	"{\"role\": \"user\", \"content\": \"one\"}",
	"{\"role\": \"assistant\", \"content\": \"two\", \"reasoning_content\": \"why\"}",
	"{\"role\": \"user\", \"content\": \"\", \"n\": 3}",
	"{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}]}",
	"{\"role\": \"tool\", \"content\": \"t\", \"tool_call_id\": \"abcdefghi\"}",
	"{\"role\": \"assistant\", \"content\": \"done\"}",
	"{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"p\"}]}",
	"{\"role\": \"assistant\", \"content\": \"x</think>y\"}",
	"{\"role\": \"user\", \"content\": \"two\"}",
	"{\"content\": \"nobody\"}",
	"\"text\"",
	"{}",
};
static const char variants[] =
	"[{}, {\"k\": 1, \"tools\": [{\"name\": \"f\"}]}, {\"k\": \"v\", \"b\": true, \"bos_token\": \"<s>\"}, {\"k\": null, \"b\": [1], \"l\": {\"a\": \"q\"}},"
	" {\"k\": 1.0, \"b\": 1, \"tools\": []}, {\"k\": true, \"bos_token\": \"<t>\", \"l\": \"str\"}]";

/* What sees the surroundings of a round. */
static const char *const outer[] = { "loop.index0", "loop.first", "loop.last", "loop.length",
	"loop.revindex", "ns.a", "ns.n", "ns.k", "ns.none", "top", "k", "b", "l", "l.a", "tools",
	"bos_token", "messages|length", "messages[loop.index0 - 1].role",
	"messages[loop.index0 + 1]", "messages[-1].content", "messages[0]", "loop.previtem",
	"loop.nextitem.content", "loop.previtem.role", "undefined_one", "ns.m.content", "it|first",
	"it|list|length", "'a' in it", "gen_list", "(messages|map(attribute='role')|list|length)",
	"k is defined", "tools is none", "(k or 'x')", "(b and ns.n)", "(ns.a if b else top)",
	"strftime_now('%d')", "cyc.next()", "join()", "cyc.current", "loop.cycle('a', 'b')",
	"loop.changed(ns.a)", "[k, top]", "{'q': k}", "mac", "ns", "loop", "messages",
	"messages[loop.index0 - 1:]", "range(ns.n)", "(ns.k|string|upper)", "(k|default('d'))",
	"'%s'|format(ns.a)", "ns['a']", "messages[ns.n % 2]['role']", "(ns.n > 1)", "loop.depth",
	"(messages[loop.index0 + 1] is defined)", "(messages[0].role == 'system')", "top.a",
	"(1 / k)", "(ns.n // (ns.n - 2))", "ns.s", "(ns.s ~ k)" };
static const char *const inner[] = { "m", "m.content", "m.role", "m['content']", "m.n", "x", "y",
	"m.tool_calls", "'c'", "7", "m.reasoning_content", "mac(m.role)", "mac2(m.content, k)",
	"see()", "(m.content|string|length)", "m.tool_calls[0].function", "none", "'' ~ m.content",
	"m.role|upper", "set_n(m)" };
static const char *const joined[] = { "%s == %s", "(%s) ~ (%s)", "%s and %s", "%s or %s",
	"(%s, %s)[0]", "%s in [%s]", "[%s, %s]|length", "not %s and %s", "(%s) if (%s) else 'e'",
	"(%s)|string ~ (%s)|string", "%s != %s", "(%s)|default(%s)", "{'k': %s}[%s]",
	"messages[%s].role", "messages[%s - 1]", "ms[%s]", "ns.l[%s]", "gen_list[%s]|first" };

static const char *one_of(struct kp_rng *rng, const char *const *of, size_t n)
{
	return of[kp_rng_below(rng, n)];
}
#define PICK(rng, of) one_of(rng, of, KP_LEN(of))

static void expr(struct kp_rng *rng, struct kp_buf *b, int depth)
{
	uint64_t kind = kp_rng_below(rng, 10);
	if (kind < 4) {
		/* Half of them from the tame ones in front, so that rounds are kept. */
		kp_buf_addz(
			b, kp_rng_below(rng, 3) ? outer[kp_rng_below(rng, 20)] : PICK(rng, outer));
	} else if (kind < 8 || depth > 2) {
		kp_buf_addz(b, PICK(rng, inner));
	} else {
		const char *shape = PICK(rng, joined);
		for (; *shape; shape++) {
			if (shape[0] == '%' && shape[1] == 's') {
				expr(rng, b, depth + 1);
				shape++;
			} else {
				kp_buf_addc(b, *shape);
			}
		}
	}
}

static void tag(struct kp_rng *rng, struct kp_buf *b, const char *before, const char *after)
{
	kp_buf_addz(b, before);
	expr(rng, b, 0);
	kp_buf_addz(b, after);
}

static void body(struct kp_rng *rng, struct kp_buf *b, int depth);

static void statement(struct kp_rng *rng, struct kp_buf *b, int depth)
{
	static const char *const stores[] = { "{% set ns.a = ", "{% set ns.n = ", "{% set ns.k = ",
		"{% set ns.m = ", "{% set ns.s = ", "{% set ns.fresh = ", "{% set x = ",
		"{% set y = ", "{% set top = ", "{% set k = " };
	static const char *const slices[] = { "messages[loop.index0:]", "messages[x:]",
		"ms[loop.index0 + 1:]", "ms[ns.n:]", "messages[m.n:]", "messages[-2:]", "ns.l[x:]",
		"ms[-x:]", "messages[:x]", "messages[mac2(1, 0)|length:]" };
	static const char *const simple[] = { "{% set x = loop.index0 %}",
		"{% if m.n %}{% set k = 1 %}{% endif %}{{ k }}",
		"{% if loop.last %}{% set b = m.role %}{% endif %}{{ b }}",
		"{{ l }}{% set l = k %}{{ l }}", "{% if ns.n %}{% set tools = 1 %}{% endif %}" };
	switch (kp_rng_below(rng, depth > 2 ? 6 : 18)) {
	case 0:
	case 1:
	case 2:
		tag(rng, b, "{{ ", " }}");
		break;
	case 3:
		if (kp_rng_below(rng, 3) == 0) {
			kp_buf_addz(b, PICK(rng, simple));
			break;
		}
		tag(rng, b, stores[kp_rng_below(rng, kp_rng_below(rng, 3) ? 5 : KP_LEN(stores))],
			" %}");
		break;
	case 4:
		kp_buf_addz(b,
			kp_rng_below(rng, 2) ? "{% set ns.n = ns.n + 1 %}" : "{% set ns.m = m %}");
		break;
	case 5:
		kp_buf_lit(b, "\nT ");
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		tag(rng, b, "{% if ", " %}");
		body(rng, b, depth + 1);
		if (kp_rng_below(rng, 2)) {
			tag(rng, b, "{% elif ", " %}");
			body(rng, b, depth + 1);
			kp_buf_lit(b, "{% else %}");
			body(rng, b, depth + 1);
		}
		kp_buf_lit(b, "{% endif %}");
		break;
	case 10:
		kp_buf_addz(b, kp_rng_below(rng, 2) ? "{% for q in m.tool_calls %}{{ loop.index }}"
						    : "{% for x in 'ab' if k != x %}{{ x }}");
		body(rng, b, depth + 1);
		kp_buf_lit(b, "{% endfor %}");
		break;
	case 16:
	case 17:
		kp_buf_printf(b, "{%% for q in %s %%}", PICK(rng, slices));
		kp_buf_addz(b, kp_rng_below(rng, 2) ? "{{ q.role }}" : "{{ loop.index }}{{ q }}");
		kp_buf_addz(b, kp_rng_below(rng, 4)
				       ? "{% if q.role == 'user' %}{% break %}{% endif %}"
			       : kp_rng_below(rng, 2) ? "{{ loop.last }}"
						      : "{{ loop.length }}");
		if (kp_rng_below(rng, 3) == 0) {
			body(rng, b, depth + 1);
		}
		kp_buf_lit(b, "{% endfor %}");
		break;
	case 11:
		kp_buf_lit(b, "{% set x %}");
		body(rng, b, depth + 1);
		kp_buf_lit(b, "{% endset %}");
		break;
	case 12:
		kp_buf_addz(b, kp_rng_below(rng, 2) ? "{% filter upper %}"
						    : "{% filter replace('t', k|string) %}");
		body(rng, b, depth + 1);
		kp_buf_lit(b, "{% endfilter %}");
		break;
	case 13:
		kp_buf_addz(b, kp_rng_below(rng, 2) ? "{% generation %}" : "{% call around(k) %}");
		bool generation = b->p[b->n - 4] == 'n';
		body(rng, b, depth + 1);
		kp_buf_addz(b, generation ? "{% endgeneration %}" : "{% endcall %}");
		break;
	case 14:
		tag(rng, b, "{% with y = ", " %}");
		body(rng, b, depth + 1);
		kp_buf_lit(b, "{% endwith %}");
		break;
	default:
		kp_buf_addz(b, kp_rng_below(rng, 3)
				       ? "{% if m.n %}{% continue %}{% endif %}"
				       : "{% if m.role == 'tool' %}{% break %}{% endif %}");
		break;
	}
}

static void body(struct kp_rng *rng, struct kp_buf *b, int depth)
{
	for (uint64_t n = 1 + kp_rng_below(rng, depth ? 2 : 4); n; n--) {
		statement(rng, b, depth);
	}
}

static void make(struct kp_rng *rng, struct kp_buf *b)
{
	static const char *const iterables[] = { "messages", "messages", "messages[1:]", "ms",
		"messages[:-1]", "messages[2:][1:]", "messages[::-1]", "messages|list",
		"messages[::2]" };
	kp_buf_lit(b,
		"{% set ns = namespace(a=false, n=0, k='', m={}, s='s', l=[1, 'b']) %}{% set top = 'T' %}{% set it = messages|map('string') %}"
		"{% set gen_list = [messages|map('string')] %}{% set cyc = cycler('c', 'd') %}{% set join = joiner('-') %}{% set o = namespace(i=0) %}"
		"{% set ms = messages[1:] if messages and messages[0].role == 'system' else messages %}"
		"{% macro mac(p) %}<{{ p }}{{ ns.n }}>{% endmacro %}{% macro mac2(p, q=top) %}{% set top = q %}{% set o.i = o.i + 1 %}{{ o.i }}{{ p if q else b }}{{ top }}{% endmacro %}"
		"{% macro see() %}{% if tools %}[{{ tools|length }}]{% endif %}{% for q in 'xy' if k %}{{ q }}{% endfor %}{{ l }}{% endmacro %}"
		"{% macro set_n(v) %}{% set ns.n = 5 %}{% set ns.k = v.role %}{% endmacro %}{% macro around(p) %}({{ caller() }}{{ p }}{{ ns.k }}){% endmacro %}");
	for (uint64_t n = 1 + kp_rng_below(rng, 2); n; n--) {
		kp_buf_printf(b, "{%% for m in %s %%}", PICK(rng, iterables));
		body(rng, b, 0);
		kp_buf_addz(
			b, kp_rng_below(rng, 4) ? "{% endfor %}" : "{% else %}none{% endfor %}");
	}
	kp_buf_lit(b,
		"[{{ ns.a }} {{ ns.n }} {{ ns.k }} {{ ns.m }} {{ ns.s }} {{ m }} {{ x }} {{ top }} {{ o.i }} {{ cyc.current }} {{ it|list|length }}]");
}

static void walk_init(struct walk *w, const struct kp_jv *v, uint64_t seed)
{
	*w = (struct walk){ .variants = v };
	kp_rng_seed(&w->rng, seed);
	for (; w->n_pool < KP_LEN(pool); w->n_pool++) {
		w->pool[w->n_pool] = kp_str_c(pool[w->n_pool]);
	}
}

static uint64_t steps(uint64_t missing)
{
	const char *z = getenv("KP_STEPS");
	uint64_t n = missing;
	if (z && !kp_str_u64(kp_str_c(z), UINT32_MAX, &n)) {
		fail_msg("KP_STEPS is no number");
	}
	return n;
}

static void test_programs(void **state)
{
	(void)state;
	enum { EACH = 40 };
	uint64_t seed = test_seed(), texts = 0, replayed = 0, messages = 0, left_out = 0,
		 compiled = 0, n = steps(8000) / EACH;
	KP_AUTO(arena) struct kp_arena *in = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v;
	static struct walk w;
	kp_buf_init(&b, 1 << 20);
	assert_int_equal(kp_jv_parse(kp_str_c(variants), in, &v, &err), 0);
	for (uint64_t i = 0; i < n; i++, seed++) {
		KP_AUTO(template) struct kp_template *t = NULL;
		walk_init(&w, &v, seed);
		kp_buf_reset(&b);
		make(&w.rng, &b);
		if (kp_template_compile(kp_buf_str(&b), &t, &err)) {
			continue;
		}
		compiled++;
		w.t = t;
		for (int k = 0; k < EACH; k++) {
			KP_AUTO(buf) struct kp_buf said;
			kp_buf_init(&said, 1 << 20);
			if (!walk_step(&w, &said)) {
				fail_msg("KP_SEED=%llu: %s\n%s", (unsigned long long)seed,
					kp_buf_cstr(&b), kp_buf_cstr(&said));
			}
		}
		texts += w.texts;
		left_out += w.left_out;
		messages += w.messages;
		replayed += w.replayed;
		walk_fini(&w);
	}
	print_message(
		"# %llu templates, %llu texts, %llu of %llu messages replayed, %llu left out\n",
		(unsigned long long)compiled, (unsigned long long)texts,
		(unsigned long long)replayed, (unsigned long long)messages,
		(unsigned long long)left_out);
	assert_true(compiled > n / 2 && texts > n * EACH / 8 && replayed > messages / 10 &&
		    left_out > replayed / 50);
}

static void test_native(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), n = steps(300);
	KP_AUTO(arena) struct kp_arena *in = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v;
	static struct walk w;
	assert_int_equal(kp_jv_parse(kp_str_c(variants), in, &v, &err), 0);
	for (size_t i = 0; i < kp_n_native_templates; i++) {
		KP_AUTO(template) struct kp_template *t = NULL;
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1 << 20);
		kp_template_native(kp_str_c(kp_native_templates[i].name), &b);
		assert_int_equal(kp_template_compile(kp_buf_str(&b), &t, &err), 0);
		walk_init(&w, &v, seed + i);
		w.t = t;
		for (uint64_t k = 0; k < n; k++) {
			KP_AUTO(buf) struct kp_buf said;
			kp_buf_init(&said, 1 << 20);
			if (!walk_step(&w, &said)) {
				fail_msg("%s: %s", kp_native_templates[i].name, kp_buf_cstr(&said));
			}
		}
		print_message("# %s: %llu texts, %llu of %llu messages replayed\n",
			kp_native_templates[i].name, (unsigned long long)w.texts,
			(unsigned long long)w.replayed, (unsigned long long)w.messages);
		walk_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_programs),
		cmocka_unit_test(test_native) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
