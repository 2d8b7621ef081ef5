/* What is remembered of messages (lib/template/replay.h): which loops are replayed and which are not, budgets and limits, what callers are told, many threads. */
#include "template/template.h"
#include "tests/test.h"

#include <pthread.h>

enum { MESSAGES = 4 };
static const char messages_json[] =
	"[{\"role\": \"system\", \"content\": \"be brief\"}, {\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": \"two\"},"
	" {\"role\": \"user\", \"content\": \"three\"}]";

struct fixture {
	struct kp_arena *a;
	struct kp_jv messages;
	struct kp_tpl_memory *memory[MESSAGES];
	struct kp_tpl_rendered rendered[MESSAGES];
	struct kp_template *t;
	struct kp_template_opts opts;
	struct kp_template_var vars[2];
	struct kp_text text;
	struct kp_err err;
};

static void open_fixture(struct fixture *f, const char *source)
{
	*f = (struct fixture){ .a = kp_arena_create(64 << 20), .err = KP_ERR_INIT };
	assert_int_equal(kp_jv_parse(kp_str_c(messages_json), f->a, &f->messages, &f->err), 0);
	if (kp_template_compile(kp_str_c(source), &f->t, &f->err)) {
		fail_msg("%s", f->err.msg);
	}
	for (int i = 0; i < MESSAGES; i++) {
		f->memory[i] = kp_tpl_memory_create();
	}
	f->vars[0] = (struct kp_template_var){ KP_S("messages"), &f->messages, KP_ORIGIN_CLIENT };
	f->opts = (struct kp_template_opts){ .vars = f->vars,
		.n_vars = 1,
		.remembered = f->memory,
		.n_remembered = MESSAGES,
		.rendered = f->rendered };
}

static void close_fixture(struct fixture *f)
{
	for (int i = 0; i < MESSAGES; i++) {
		kp_tpl_memory_destroy(f->memory[i]);
	}
	kp_template_destroy(f->t);
	kp_arena_destroy(f->a);
}

/* How many messages were replayed. */
static int render(struct fixture *f)
{
	int n = 0;
	if (kp_template_render(f->t, &f->opts, f->a, &f->text, &f->err)) {
		fail_msg("%s", f->err.msg);
	}
	for (int i = 0; i < MESSAGES; i++) {
		n += f->rendered[i].replayed;
	}
	return n;
}

static int replayed_twice(const char *source)
{
	struct fixture f;
	open_fixture(&f, source);
	assert_int_equal(render(&f), 0);
	kp_str first = f.text.s;
	int n = render(&f);
	assert_str(f.text.s, first);
	close_fixture(&f);
	return n;
}

#define LOOP(body) "{% for m in messages %}" body "{% endfor %}"

static void test_which(void **state)
{
	(void)state;
	static const struct {
		const char *source;
		int n; /* rounds */
	} all[] = {
		{ LOOP("{{ m.content }}"), 4 },
		{ LOOP("{{ loop.index0 }}{{ m.role }}{{ loop.last }}"), 4 },
		{ "{% for m in messages[1:] %}{{ m.content }}{% endfor %}", 3 },
		{ "{% set ms = messages[1:] %}{% for m in ms[:-1] %}{{ m.content }}{% endfor %}",
			2 },
		{ LOOP("{{ messages[loop.index0 - 1].role }}{{ loop.previtem.role if loop.index > 1 }}"),
			4 },
		{ LOOP("{% if messages[-1] == m %}last{% endif %}{{ messages[0].role }}{{ m.role }}"),
			4 },
		{ LOOP("{% set prev = messages[loop.index0 - 1] %}{{ prev.role }}"), 4 },
		{ "{% set ns = namespace(n=0) %}" LOOP(
			  "{% set ns.n = ns.n + 1 %}{{ ns.n }}") "{{ ns.n }}",
			4 },
		{ "{% set ns = namespace(l=[]) %}" LOOP(
			  "{% set ns.l = ns.l + [m.role] %}{{ ns.l }}") "{{ ns.l }}",
			4 },
		{ "{% set ns = namespace(m=none) %}" LOOP(
			  "{% set ns.m = m %}{{ ns.m.role }}") "{{ ns.m.content }}",
			4 },
		{ "{% set ns = namespace() %}" LOOP("{% set ns.n = 1 %}x"),
			3 }, /* the first makes the attribute */
		{ "{% macro f(x) %}{{ x }}{{ k }}{{ messages|length }}{% endmacro %}" LOOP(
			  "{{ f(m.content) }}"),
			4 },
		{ LOOP("{% generation %}{{ m.content }}{{ loop.index }}{% endgeneration %}"), 4 },
		{ LOOP("{% if loop.index == 3 %}{% break %}{% endif %}{{ m.role }}"), 2 },
		{ LOOP("{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.role }}"), 2 },
		{ LOOP("{% for later in messages[loop.index0:] %}{{ later.role }}{% break %}{% endfor %}"),
			4 },
		{ LOOP("{% set i = loop.index0 %}{{ messages[i - 1].role }}"), 4 },
		/* Not: */
		{ LOOP("{{ strftime_now('%Y') }}"), 0 },
		{ LOOP("{{ loop }}"), 0 },
		{ LOOP("{{ loop.cycle('a', 'b') }}"), 0 },
		{ LOOP("{{ loop.changed(m.role) }}"), 0 },
		{ LOOP("{% for x in messages %}{{ x.role }}{% endfor %}"), 0 },
		{ "{% set c = cycler('a', 'b') %}" LOOP("{{ c.next() }}"), 0 },
		{ "{% set j = joiner('-') %}" LOOP("{{ j() }}{{ m.role }}"), 0 },
		{ "{% set g = messages|map(attribute='role') %}" LOOP("{{ g|first }}"), 0 },
		{ "{% set g = [messages|map(attribute='role')] %}" LOOP("{{ g[0]|first }}"), 0 },
		{ "{% set ns = namespace() %}" LOOP("{% set ns.l = loop %}x"), 0 },
		{ LOOP("{{ m is sameas(messages[0]) }}"), 0 },
		{ "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}", 0 },
		{ "{% for m in messages if m.content %}{{ m.role }}{% endfor %}", 0 },
		{ "{% block b %}{% endblock %}" LOOP("{{ m.role }}"), 0 },
	};
	for (size_t i = 0; i < KP_LEN(all); i++) {
		int n = replayed_twice(all[i].source);
		if (n != all[i].n) {
			fail_msg("%s: %d replayed, not %d", all[i].source, n, all[i].n);
		}
	}
}

/* What a round asks is asked each time. */
static void test_answers(void **state)
{
	(void)state;
	struct fixture f;
	struct kp_jv tools;
	open_fixture(&f,
		"{% set ns = namespace(n=0) %}" LOOP(
			"{% if tools %}T{% endif %}{% set ns.n = ns.n + 1 %}{{ m.role[0] }}{{ loop.last }}{{ ns.n }} "));
	render(&f);
	assert_str_lit(f.text.s, "sFalse1 uFalse2 aFalse3 uTrue4 ");
	f.messages.n = 3;
	assert_int_equal(render(&f), 2);
	assert_str_lit(f.text.s, "sFalse1 uFalse2 aTrue3 ");
	f.messages.n = 4;
	assert_int_equal(kp_jv_parse(KP_S("[1]"), f.a, &tools, &f.err), 0);
	f.vars[1] = (struct kp_template_var){ KP_S("tools"), &tools, KP_ORIGIN_CLIENT };
	f.opts.n_vars = 2;
	assert_int_equal(render(&f), 0);
	assert_str_lit(f.text.s, "TsFalse1 TuFalse2 TaFalse3 TuTrue4 ");
	f.opts.n_vars = 1;
	assert_int_equal(render(&f), 4);
	assert_str_lit(f.text.s, "sFalse1 uFalse2 aFalse3 uTrue4 ");
	close_fixture(&f);
}

/* The variables k and b, and the number of messages, change; what comes out is what a render without memory makes of them. */
static void test_changes(void **state)
{
	enum { EACH = 500 };
	(void)state;
	static const char *const sources[] = {
		LOOP("{% if m.role == 'x' %}{% set k = 1 %}{% endif %}{{ k }}{{ m.role }}"),
		LOOP("{% filter replace('e', k|string) %}{{ m.content }}{% if 0 %}{% set k = 1 %}{% endif %}{% endfilter %}"),
		"{% set top = k %}" LOOP("{% set top = top ~ m.role %}{{ top }}"),
		"{% set top = k %}" LOOP("{{ top }}{% set top = m.role %}{{ top }}"),
		"{% set top = k %}" LOOP("{% if top %}y{% endif %}{% set top = m.role %}{{ top }}"),
		"{% set top = k %}" LOOP("{% set top = m.role %}{{ top }}"),
		"{% set ns = namespace(a=true, b=k) %}{% macro f() %}{{ 'Y' if ns.a or ns.b else 'N' }}{% endmacro %}" LOOP(
			"{{ f() }}{% set ns.a = false %}{{ f() }}{% set ns.a = true %}"),
		LOOP("{% for x in messages[loop.index0:] %}{{ loop.length }}{{ x.role }}{% break %}{% endfor %}"),
		LOOP("{% for x in messages[loop.index0:] %}{{ loop.last }}{% break %}{% endfor %}"),
		LOOP("{% for x in messages[-2:] %}{{ x.content }}{% break %}{% endfor %}"),
		LOOP("{% set i = k or 0 %}{% for x in messages[i:] %}{{ x.content }}{% endfor %}"),
		"{% set s = k ~ '2' if b else '2' ~ k %}" LOOP("{{ s }}{{ m.role }}"),
		"{% if k == 1 %}{% macro f() %}A{% endmacro %}{% else %}{% macro f() %}B{% endmacro %}{% endif %}" LOOP(
			"{{ f() }}"),
		LOOP("{% set p = messages[k or 0] %}{{ p.content }}{{ m.role }}"),
		LOOP("{% set i = m.role|length - 3 %}{{ messages[i].content }}{{ {'a': k}[m.role[0]] }}"),
		"{% set ns = namespace(l=none) %}" LOOP(
			"{{ ns.l }}{% set ns.l = range(loop.index) %}{{ ns.l }}") "{{ ns.l }}",
		"{% set ns = namespace(l=none) %}" LOOP(
			"{% set ns.l = [m.role, k, {'a': b}] %}{{ ns.l }}") "{{ ns.l }}",
		"{% set l = [k, b] %}" LOOP("{% if m.role in l or m %}{{ l }}{% endif %}"),
		LOOP("{{ k }}{{ b }}") LOOP("{{ b }}{{ k }}"),
		LOOP("{% if k == 2 and loop.index == 2 %}{% break %}{% endif %}{{ m.role }}") "{{ m }}",
		LOOP("{% for x in 'ab' if k != 1 %}{{ x }}{% endfor %}{{ m.content }}"),
		"{% macro f(p=k) %}{{ p }}{{ b }}{% set b = p %}{{ b }}{% endmacro %}" LOOP(
			"{{ f() }}"),
		"{% macro g() %}<{{ caller() }}{{ b }}>{% endmacro %}" LOOP(
			"{% call g() %}{{ m.role }}{{ k }}{{ loop.last }}{% endcall %}"),
	};
	static const char *const values[] = { "1", "2", "1.0", "true", "null", "\"2\"", "0" };
	uint64_t seed = test_seed();
	struct kp_rng rng;
	kp_rng_seed(&rng, seed);
	for (size_t i = 0; i < KP_LEN(sources) * EACH; i++) {
		static struct fixture f;
		static struct kp_template_var v[3];
		struct kp_jv kb[2];
		struct kp_text with, without;
		if (i % EACH == 0) {
			open_fixture(&f, sources[i / EACH]);
		}
		uint32_t n = 0;
		v[n++] = f.vars[0];
		for (int k = 0; k < 2; k++) {
			assert_int_equal(
				kp_jv_parse(kp_str_c(values[kp_rng_below(&rng, KP_LEN(values))]),
					f.a, &kb[k], &f.err),
				0);
			if (kp_rng_below(&rng, 5)) {
				v[n++] = (struct kp_template_var){ k ? KP_S("b") : KP_S("k"),
					&kb[k], KP_ORIGIN_CLIENT };
			}
		}
		f.messages.n = 1 + (uint32_t)kp_rng_below(&rng, MESSAGES);
		f.opts.vars = v;
		f.opts.n_vars = n;
		struct kp_template_opts plain = f.opts;
		struct kp_err x = KP_ERR_INIT, y = KP_ERR_INIT;
		plain.n_remembered = 0;
		int r = kp_template_render(f.t, &f.opts, f.a, &with, &x);
		assert_int_equal(r, kp_template_render(f.t, &plain, f.a, &without, &y));
		assert_string_equal(x.msg, y.msg);
		if (r == 0 &&
			(!kp_str_eq(with.s, without.s) || with.n_runs != without.n_runs ||
				(with.n_runs && memcmp(with.runs, without.runs,
							with.n_runs * sizeof(*with.runs)) != 0))) {
			fail_msg("%s:\n%.*s\n%.*s", sources[i / EACH], (int)with.s.n, with.s.p,
				(int)without.s.n, without.s.p);
		}
		if (i % EACH == EACH - 1) {
			close_fixture(&f);
		}
	}
}

/* The same round is the same text, and says so; another template, or another origin, is another. */
static void test_told(void **state)
{
	(void)state;
	struct fixture f, g;
	open_fixture(&f, "<" LOOP("[{{ m.content }}]") ">");
	render(&f);
	for (int i = 0; i < MESSAGES; i++) {
		assert_int_equal(f.rendered[i].kept, 1);
		assert_false(f.rendered[i].replayed);
		assert_int_equal(f.rendered[i].start, i ? f.rendered[i - 1].end : 1);
	}
	assert_int_equal(f.rendered[3].end + 1, f.text.s.n);
	struct kp_tpl_memory *none = f.memory[1];
	f.memory[1] = NULL;
	assert_int_equal(render(&f), 3);
	assert_int_equal(f.rendered[1].kept, 0);
	assert_str_lit(f.text.s, "<[be brief][one][two][three]>");
	f.memory[1] = none;
	f.vars[0].origin = KP_ORIGIN_TRUSTED;
	assert_int_equal(render(&f), 0);
	assert_int_equal(f.text.n_runs, 1);
	f.vars[0].origin = KP_ORIGIN_CLIENT;
	open_fixture(&g, "<" LOOP("[{{ m.content }}]") ">");
	f.opts.remembered = g.opts.remembered = f.memory;
	assert_int_equal(render(&g), 0);
	assert_int_equal(render(&g), 4);
	assert_int_equal(render(&f), 4);
	close_fixture(&g);
	close_fixture(&f);
}

/* The fewest steps that a render needs. */
static uint64_t needed(struct fixture *f, const struct kp_template_opts *opts)
{
	uint64_t low = 0, high = 1000000;
	while (high - low > 1) {
		struct kp_template_opts o = *opts;
		struct kp_err err = KP_ERR_INIT;
		o.max_steps = low + (high - low) / 2;
		if (kp_template_render(f->t, &o, f->a, &f->text, &err) == 0) {
			high = o.max_steps;
		} else {
			low = o.max_steps;
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
			assert_true(kp_str_ends(kp_str_c(err.msg), KP_S(": too many steps")));
		}
	}
	return high;
}

/* Steps and output are limited as without, with the same words. */
static void test_budgets(void **state)
{
	(void)state;
	struct fixture f;
	open_fixture(&f,
		LOOP("{% for i in range(1000) %}{% if i == 999 %}{{ m.content * 9 }}{% endif %}\n{% endfor %}{{ loop.index }}{{ loop.last }}"));
	struct kp_template_opts plain = f.opts;
	plain.n_remembered = 0;
	plain.rendered = NULL;
	uint64_t without = needed(&f, &plain);
	assert_int_equal(render(&f), 0);
	assert_int_equal(needed(&f, &f.opts), without);
	assert_int_equal(render(&f), 4);
	for (uint64_t steps = 1; steps <= without; steps += 1 + steps / 8) {
		struct kp_err x = KP_ERR_INIT, y = KP_ERR_INIT;
		struct kp_template_opts o = f.opts;
		o.max_steps = plain.max_steps = steps;
		int r = kp_template_render(f.t, &o, f.a, &f.text, &x);
		assert_int_equal(r, kp_template_render(f.t, &plain, f.a, &f.text, &y));
		assert_string_equal(x.msg, y.msg);
	}
	struct kp_err err = KP_ERR_INIT;
	f.opts.max_output = 1000;
	assert_int_equal(render(&f), 4);
	f.opts.max_output = 64;
	assert_int_equal(kp_template_render(f.t, &f.opts, f.a, &f.text, &err), -1);
	assert_string_equal(err.msg, "render template: line 1: text of more than 64 bytes");
	plain.max_steps = 0;
	for (size_t max = 1; max < 8000; max += 1 + max / 8) {
		struct kp_err x = KP_ERR_INIT, y = KP_ERR_INIT;
		f.opts.max_output = plain.max_output = max;
		int r = kp_template_render(f.t, &f.opts, f.a, &f.text, &x);
		assert_int_equal(r, kp_template_render(f.t, &plain, f.a, &f.text, &y));
		assert_string_equal(x.msg, y.msg);
	}
	close_fixture(&f);
}

/* However many templates and answers: 8 rounds, 1 MiB. */
static void test_limits(void **state)
{
	(void)state;
	struct fixture f;
	struct kp_jv k;
	open_fixture(&f, LOOP("{{ k }}{{ m.content * (k % 2 * 40000 + 1) }}"));
	f.opts.n_vars = 2;
	for (int i = 0; i < 40; i++) {
		char z[16];
		snprintf(z, sizeof(z), "%d", i);
		assert_int_equal(kp_jv_parse(kp_str_c(z), f.a, &k, &f.err), 0);
		f.vars[1] = (struct kp_template_var){ KP_S("k"), &k, KP_ORIGIN_TRUSTED };
		kp_arena_reset(f.a);
		assert_int_equal(kp_jv_parse(kp_str_c(messages_json), f.a, &f.messages, &f.err), 0);
		assert_int_equal(kp_jv_parse(kp_str_c(z), f.a, &k, &f.err), 0);
		render(&f);
		for (int m = 0; m < MESSAGES; m++) {
			assert_true(f.rendered[m].kept <= 8);
			assert_true(kp_tpl_memory_bytes(f.memory[m]) <= (1 << 20) + 64);
		}
		if (i ==
			7) { /* the fourth long text of "be brief", but not of "one", is too much */
			assert_int_equal(f.rendered[0].kept, 0);
			assert_int_equal(f.rendered[1].kept, 8);
		}
	}
	close_fixture(&f);
}

/* What is one more than a round may ask of, or the value of an answer may have, keeps it from being kept. */
static void test_most(void **state)
{
	(void)state;
	static const struct {
		const char *before, *open, *close, *after;
		int most;
	} all[] = {
		{ "{% for m in messages %}", "{{ k }}", "", "{{ m.role }}{% endfor %}", 64 },
		{ "", "{% macro f() %}", "{% endmacro %}", LOOP("{{ m.role }}"), 7 },
		{ "{% set v = '", "x", "", "' %}" LOOP("{{ v }}{{ m.role }}"), 64 << 10 },
		{ "{% set v = [", "1,", "", "] %}" LOOP("{{ v }}{{ m.role }}"), 511 },
		{ "{% set v = ", "[", "]", " %}" LOOP("{{ v }}{{ m.role }}"), 33 },
	};
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	for (size_t i = 0; i < KP_LEN(all); i++) {
		for (int more = 0; more < 2; more++) {
			kp_buf_reset(&b);
			kp_buf_addz(&b, all[i].before);
			for (int k = 0; k < all[i].most + more; k++) {
				kp_buf_addz(&b, all[i].open);
			}
			for (int k = 0; k < all[i].most + more; k++) {
				kp_buf_addz(&b, all[i].close);
			}
			kp_buf_addz(&b, all[i].after);
			int n = replayed_twice(kp_buf_cstr(&b));
			if (n != (more ? 0 : MESSAGES)) {
				fail_msg("%s%s..., %d: %d replayed", all[i].before, all[i].open,
					all[i].most + more, n);
			}
		}
	}
}

/* --- threads ----------------------------------------------------------------------------------------------------------------------------- */

struct worker {
	const struct fixture *f;
	uint64_t seed;
	bool same;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct kp_rng rng;
	kp_rng_seed(&rng, w->seed);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(16 << 20);
	w->same = true;
	for (int i = 0; i < 500 && w->same; i++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_jv messages = w->f->messages;
		struct kp_template_var v = { KP_S("messages"), &messages, KP_ORIGIN_CLIENT };
		struct kp_tpl_rendered rendered[MESSAGES];
		struct kp_template_opts with = w->f->opts, without;
		struct kp_text x, y;
		kp_arena_reset(a);
		messages.n = 1 + (uint32_t)kp_rng_below(&rng, MESSAGES);
		with.vars = &v;
		with.rendered = rendered;
		without = with;
		without.n_remembered = 0;
		w->same = !kp_template_render(w->f->t, &with, a, &x, &err) &&
			  !kp_template_render(w->f->t, &without, a, &y, &err) &&
			  kp_str_eq(x.s, y.s);
	}
	return NULL;
}

static void test_threads(void **state)
{
	(void)state;
	enum { THREADS = 4 };
	uint64_t seed = test_seed();
	for (int round = 0; round < 10; round++) {
		struct fixture f;
		pthread_t t[THREADS];
		struct worker w[THREADS];
		open_fixture(&f,
			"{% set ns = namespace(n=0, s='') %}" LOOP(
				"{% set ns.s = m.content ~ loop.index %}{{ ns.n }}{{ ns.s }}{{ loop.last }}{% set ns.n = ns.n + 1 %}{{ messages[loop.index0 - 1].role }}"));
		for (int i = 0; i < THREADS; i++) {
			w[i] = (struct worker){ .f = &f, .seed = seed++ };
			assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(t[i], NULL);
			assert_true(w[i].same);
		}
		close_fixture(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_which),
		cmocka_unit_test(test_answers), cmocka_unit_test(test_changes),
		cmocka_unit_test(test_told), cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_most),
		cmocka_unit_test(test_threads) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
